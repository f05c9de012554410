"""Read run directories and explain them; executes nothing."""
