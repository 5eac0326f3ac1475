"""The model's operations, each by the fastest implementation for the device, dtype and shape."""
