"""What goes into every bundle as it is: standard library only, for Python 3.10 and newer."""
