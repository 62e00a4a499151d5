"""Tables of results: what they hold, how they are read, checked and standardised."""
