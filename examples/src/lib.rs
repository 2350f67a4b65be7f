//! Nothing: the examples stand beside this folder, one file or folder each.
