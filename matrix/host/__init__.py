"""The host as found: a production service is stopped for a run, and running again after it, come what may."""
