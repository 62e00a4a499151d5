"""From prompts to the tokens and embeddings of an encoder, with nothing cut silently."""
