"""Maps of the files that other load generators write, one TOML file for each."""
