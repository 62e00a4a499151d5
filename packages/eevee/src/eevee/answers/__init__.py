"""What a user asks: select, score, predict, and how far to trust the answer."""
