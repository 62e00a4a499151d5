"""CoOp's protocol: heads on a few images of each class, by published draws, and what carries over to other classes."""
