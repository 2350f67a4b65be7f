//! One search over types, ids, groups, headers, errors and messages.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use delayq_ops::{
    MAX_FOUND, MAX_SEARCH_CALLS, MAX_SEARCHED, Search, SearchHit, SearchPlace, SearchResults,
};
use delayq_plugin::store::GROUP_HEADER;
use delayq_plugin::{Result, TaskState, Timestamp};

use super::Page;
use super::picked::TaskActions;
use super::tabs::STATES;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::moment::Moment;
use crate::said::{ROW_CHARS, capital, count, one_line};
use crate::shell::Nav;
use crate::tag::{Tag, of_state};
use crate::visit::Visit;

/// The longest search, with its wait for others. A page waits longer for its data.
const LONGEST: Duration = Duration::from_secs(4);

/// The requested search.
#[derive(Clone, Debug)]
pub(crate) struct SearchPage {
    q: String,
    /// A pattern of types; empty means all types.
    types: String,
    state: Option<TaskState>,
    place: Option<SearchPlace>,
}

/// A choice of a select.
struct Choice {
    value: &'static str,
    name: String,
    is_here: bool,
}

/// A type that was found.
struct FoundType {
    name: String,
    href: String,
}

/// A task that was found.
struct HitRow {
    id: String,
    /// Its type and id, for a form; `None` if it has ended.
    pick: Option<String>,
    href: String,
    task_type: String,
    type_href: String,
    tag: Tag,
    at: Moment,
    group: String,
    place: &'static str,
    /// The text there; empty for an id.
    found: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchBody<'a> {
    visit: &'a Visit,
    page: &'a SearchPage,
    action: String,
    own: Link,
    places: Vec<Choice>,
    states: Vec<Choice>,
    types: Vec<FoundType>,
    rows: Vec<HitRow>,
    searched: String,
    is_complete: bool,
    limits: String,
    may: TaskActions,
}

impl Page for SearchPage {
    type Data = SearchResults;
    const NAV: Nav = Nav::Elsewhere;

    fn of(visit: &Visit) -> Self {
        let fields = &visit.fields;
        let (state, place) = (fields.get("state"), fields.get("in"));
        Self {
            q: fields.get("q").to_owned(),
            types: fields.get("types").to_owned(),
            state: STATES.into_iter().find(|one| one.as_str() == state),
            place: SearchPlace::ALL
                .into_iter()
                .find(|one| one.as_str() == place),
        }
    }

    fn title(&self) -> String {
        match self.q.as_str() {
            "" => "Search".to_owned(),
            text => format!("Search: {}", one_line(text, 60)),
        }
    }

    fn key(&self) -> String {
        format!("{:?}", (&self.q, &self.types, self.state, self.place))
    }

    fn cache(app: &App) -> &Cache<SearchResults> {
        &app.shelf.search
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<SearchResults>> + Send + 'static {
        let (tasks, mut search) = (app.tasks.clone(), Search::new(&self.q));
        if !self.types.is_empty() {
            search = search.types(&self.types);
        }
        if let Some(state) = self.state {
            search = search.state(state);
        }
        if let Some(place) = self.place {
            search = search.place(place);
        }
        let searches = Arc::clone(&app.searches);
        async move {
            let began = tasks.clock().elapsed();
            let Ok(permit) = tokio::time::timeout(LONGEST, searches.acquire()).await else {
                return Ok(SearchResults::default());
            };
            let waited = tasks.clock().elapsed().saturating_sub(began);
            let search = search.within(LONGEST.saturating_sub(waited));
            let found = search.run(&tasks).await;
            drop(permit);
            found
        }
    }

    fn body(&self, visit: &Visit, data: &SearchResults) -> askama::Result<String> {
        let now = visit.tasks().clock().now();
        let mut states: Vec<_> = data.hits.iter().map(|hit| hit.task.state).collect();
        states.dedup();
        let types = data.types.iter().take(MAX_FOUND).map(|one| FoundType {
            name: one.to_string(),
            href: visit.href(&Link::to("/type").with("name", one)),
        });
        SearchBody {
            visit,
            page: self,
            action: visit.at("/search"),
            own: self.link(),
            places: self.places(),
            states: self.states(),
            types: types.collect(),
            rows: data.hits.iter().map(|hit| row(visit, hit, now)).collect(),
            searched: count(data.searched),
            is_complete: data.is_complete,
            limits: format!(
                "a search reads up to {} tasks, with up to {} calls and for up to {} s, and shows \
                 up to {} hits",
                count(MAX_SEARCHED),
                count(MAX_SEARCH_CALLS as u64),
                LONGEST.as_secs(),
                count(MAX_FOUND as u64)
            ),
            may: TaskActions::on(visit, &states),
        }
        .render()
    }
}

impl SearchPage {
    fn link(&self) -> Link {
        Link::to("/search")
            .with("q", &self.q)
            .with("types", &self.types)
            .with("in", self.place.map_or("", SearchPlace::as_str))
            .with("state", self.state.map_or("", TaskState::as_str))
    }

    fn places(&self) -> Vec<Choice> {
        let choice = |place: SearchPlace| Choice {
            value: place.as_str(),
            name: capital(place.as_str()),
            is_here: self.place == Some(place),
        };
        SearchPlace::ALL.map(choice).into()
    }

    fn states(&self) -> Vec<Choice> {
        let choice = |state: TaskState| Choice {
            value: state.as_str(),
            name: capital(state.as_str()),
            is_here: self.state == Some(state),
        };
        STATES.map(choice).into()
    }
}

fn row(visit: &Visit, hit: &SearchHit, now: Timestamp) -> HitRow {
    let (task, name) = (&hit.task, hit.task_type.as_str());
    let link = Link::to("/task").with("type", name);
    let group = task.headers.get(GROUP_HEADER);
    HitRow {
        id: task.id.to_string(),
        pick: (!task.state.is_ended()).then(|| format!("{name} {}", task.id)),
        href: visit.href(&link.with("id", &task.id)),
        task_type: name.to_owned(),
        type_href: visit.href(&Link::to("/type").with("name", name)),
        tag: of_state(task.state),
        at: Moment::seen_from(now, task.at),
        group: group.map_or_else(String::new, |group| one_line(group, ROW_CHARS)),
        place: hit.place.as_str(),
        found: match hit.place {
            // The first column has it.
            SearchPlace::Id => String::new(),
            _ => one_line(&hit.found, ROW_CHARS),
        },
    }
}
