"""The schema registry: asked by the driver alone, over HTTP; what it says of an id is kept."""
