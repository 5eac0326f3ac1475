"""The fastest implementations of the model's operations, by device, dtype and shape."""
