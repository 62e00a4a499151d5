"""Image-text encoders trained on images with captions: ``gate-runner finetune``."""
