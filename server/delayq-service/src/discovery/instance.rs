//! An instance of an application that the server can call.

use std::collections::BTreeSet;

use delayq_endpoint::{SPRING_PATH, WORK_PATH};
use delayq_plugin::TaskType;
use url::Url;

/// An instance and the types that it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The URL to call.
    pub url: String,
    /// The form of the call.
    pub form: Form,
    /// The types that it serves.
    pub types: BTreeSet<TaskType>,
    /// The source of the permission to call it.
    pub trust: Trust,
}

/// The form of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// The message is the body; the facts of the attempt are headers.
    Own,
    /// The form of the Spring delay queue, where the type begins with the application's name.
    Spring {
        /// The application's name, in lower case.
        app: String,
    },
}

/// The source of the permission to call an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The configuration names the instance.
    Configured,
    /// A registry or the instance itself names it; only allowed networks are called.
    Announced,
}

impl Instance {
    /// The instance at a URL of the configuration. A URL without a path gets the default path. The
    /// path of the Spring delay queue selects its form.
    pub(super) fn configured(url: &Url, task_type: &TaskType) -> Self {
        let mut url = url.clone();
        if url.path() == "/" {
            url.set_path(WORK_PATH);
        }
        let form = if url.path() == SPRING_PATH {
            // The application's name is the part of the type before its last hyphen.
            let app = task_type.as_str().rsplit_once('-').map(|(app, _)| app);
            let app = app.unwrap_or_default().to_owned();
            Form::Spring { app }
        } else {
            Form::Own
        };
        Self {
            url: url.to_string(),
            form,
            types: [task_type.clone()].into(),
            trust: Trust::Configured,
        }
    }
}
