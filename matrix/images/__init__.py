"""Images: what they are made of, how they are built, and what the probe finds in them."""
