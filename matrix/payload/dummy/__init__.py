"""A large model cut down to what one rank of it computes, for `--load-format dummy`: no weight is read or written."""
