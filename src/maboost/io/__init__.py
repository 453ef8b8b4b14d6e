"""Models to files and back: the model file, and exports to other libraries' formats."""
