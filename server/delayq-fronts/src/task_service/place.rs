//! The place of a task: its project and group, which form its type, and its id.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq_plugin::{TaskId, TaskType};
use delayq_service::problem::Problem;
use sha2::{Digest, Sha256};

use super::forms::WhichForm;

/// The prefix of the type of every task.
const PREFIX: &str = "tasks";
/// The default project and group.
const DEFAULT: &str = "default";
/// The longest name of a project or group.
const MAX_NAME: usize = 32;

/// The project and group of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) project: String,
    pub(super) group: String,
    pub(super) task_type: TaskType,
}

/// Identifies a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Which {
    pub(super) place: Place,
    pub(super) id: TaskId,
}

impl Place {
    pub(super) fn new(project: &str, group: &str) -> Result<Self, Problem> {
        let (project, group) = (name("project", project)?, name("group", group)?);
        let task_type = TaskType::new(format!("{PREFIX}.{project}.{group}"))?;
        Ok(Self {
            project: project.to_owned(),
            group: group.to_owned(),
            task_type,
        })
    }

    /// The task for a request id; without one, a new task.
    pub(super) fn task(self, request_id: &str) -> Result<Which, Problem> {
        let id = if request_id.is_empty() {
            TaskId::generate()
        } else {
            let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(request_id.as_bytes()));
            TaskId::new(format!("r-{hash}"))?
        };
        Ok(Which { place: self, id })
    }
}

fn name<'a>(what: &str, text: &'a str) -> Result<&'a str, Problem> {
    if text.is_empty() {
        return Ok(DEFAULT);
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if text.len() <= MAX_NAME && text.bytes().all(is_word) {
        return Ok(text);
    }
    let text = format!("{what}: use 1 to {MAX_NAME} of A-Z a-z 0-9 _ -");
    Err(Problem::bad_request(text))
}

impl Which {
    /// Parses an id as returned by a create.
    pub(super) fn read(text: &str) -> Result<Self, Problem> {
        let mut parts = text.splitn(3, '.');
        let parts = (parts.next(), parts.next(), parts.next());
        let (Some(project), Some(group), Some(id)) = parts else {
            let text = "task_id: give the id as the create answered it, or the request_id";
            return Err(Problem::bad_request(text));
        };
        Ok(Self {
            place: Place::new(project, group)?,
            id: TaskId::new(id)?,
        })
    }

    /// The task with the given id, or else with the given request id.
    pub(super) fn of(form: &WhichForm) -> Result<Self, Problem> {
        if form.task_id.is_empty() && !form.request_id.is_empty() {
            return Place::new(&form.project, &form.group)?.task(&form.request_id);
        }
        Self::read(&form.task_id)
    }

    /// The id for clients.
    pub(super) fn task_id(&self) -> String {
        let Place { project, group, .. } = &self.place;
        format!("{project}.{group}.{}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_leads_to_its_task_and_a_request_always_to_the_same() {
        let place = Place::new("shop", "").unwrap();
        assert_eq!(place.task_type.as_str(), "tasks.shop.default");
        let one = place.clone().task("order 42").unwrap();
        assert_eq!(one, place.clone().task("order 42").unwrap());
        assert_eq!(Which::read(&one.task_id()).unwrap(), one);
        let form = json!({"request_id": "order 42", "project": "shop"});
        let named = Which::of(&serde_json::from_value(form).unwrap()).unwrap();
        assert_eq!(named, one);
        assert_ne!(place.clone().task("").unwrap(), place.task("").unwrap());
        for bad in ["", "a", "a.b", "a b.c.d", "a.b."] {
            assert!(Which::read(bad).is_err(), "{bad}");
        }
        assert!(Place::new("a.b", "c").is_err());
    }
}
