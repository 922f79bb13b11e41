"""One request and its reply: rendering, reading back, converting."""
