//! The reading side: the files of a run, folded into one ordered history a task.
