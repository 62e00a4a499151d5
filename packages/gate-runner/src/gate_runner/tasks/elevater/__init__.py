"""ELEVATER's protocol for image classification: shots, starts, knowledge, heads or whole encoders."""
