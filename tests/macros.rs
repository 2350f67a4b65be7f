//! What `#[task_worker]` registers does what the attribute and the item say.
//!
//! Refused uses are in `ui/`, one file each; here are the uses that must work.

// Both call their workers with the same tools.
#[path = "macros/again.rs"]
mod again;
#[path = "macros/arguments.rs"]
mod arguments;
#[path = "macros/forms.rs"]
mod forms;
#[path = "macros/map.rs"]
mod map;
#[path = "macros/names.rs"]
mod names;
#[path = "macros/options.rs"]
mod options;
#[path = "macros/places.rs"]
mod places;
#[path = "macros/tools.rs"]
mod tools;
