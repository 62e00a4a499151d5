"""Image-text encoders trained on pictures with captions: ``gate-runner finetune``."""
