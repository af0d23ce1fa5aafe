//! The node's configuration: one file, the environment and the command line.
