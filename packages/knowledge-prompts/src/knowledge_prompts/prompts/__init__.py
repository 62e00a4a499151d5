"""Class names, templates, and the prompts that they and knowledge make."""
