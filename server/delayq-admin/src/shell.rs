//! The frame around every page.

use std::time::Duration;

use askama::Template;
use axum::response::Html;

use crate::app::App;
use crate::asset::HASH;
use crate::fields::Link;
use crate::flash::Flash;
use crate::said::{count, one_line};
use crate::surroundings::Surroundings;
use crate::viewer::Role;
use crate::visit::Visit;

/// The key of the overview's snapshot.
pub(crate) const OVERVIEW: &str = "all";

/// The age up to which the number of dead tasks stands in the navigation.
const BADGE_AGE: Duration = Duration::from_mins(1);

/// The entry of the navigation that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nav {
    Overview,
    Dead,
    Recurring,
    Batches,
    Pools,
    Instances,
    History,
    Log,
    Health,
    Elsewhere,
}

/// An entry of the navigation.
pub(crate) struct Entry {
    name: &'static str,
    href: String,
    /// The second key of its shortcut.
    key: char,
    is_here: bool,
    badge: String,
}

/// Head, navigation and foot.
#[derive(Template)]
#[template(path = "shell.html")]
pub(crate) struct Shell<'a> {
    visit: &'a Visit,
    title: &'a str,
    body: &'a str,
    store: String,
    viewer: String,
    entries: Vec<Entry>,
    around: Surroundings,
    is_live: bool,
}

impl<'a> Shell<'a> {
    pub(crate) fn new(visit: &'a Visit, nav: Nav, title: &'a str, body: &'a str) -> Self {
        let store = visit.tasks().store();
        let namespace = store.namespace().map(|name| format!("{name} · "));
        Self {
            visit,
            title,
            body,
            store: one_line(
                &format!("{}{}", namespace.unwrap_or_default(), store.name()),
                80,
            ),
            viewer: one_line(&visit.viewer.name, 60),
            entries: entries(visit, nav),
            around: visit.surroundings(),
            is_live: false,
        }
    }

    /// Keeps the page up to date with a stream of events.
    pub(crate) fn live(mut self) -> Self {
        self.is_live = true;
        self
    }

    pub(crate) fn html(&self) -> Html<String> {
        Html(
            self.render()
                .unwrap_or_else(|error| format!("cannot show this page: {error}")),
        )
    }

    fn flash(&self) -> Option<&Flash> {
        self.visit.flash.as_ref()
    }

    /// Tells an open page whether its forms and files are still valid.
    fn boot(&self) -> String {
        boot(&self.visit.app)
    }

    fn can_change(&self) -> bool {
        self.visit.may(Role::Operator)
    }
}

/// Stays the same as long as the form secret and the release stay the same.
pub(crate) fn boot(app: &App) -> String {
    let release = concat!("boot ", env!("CARGO_PKG_VERSION"), " ");
    let nobody = crate::viewer::Viewer::new(format!("{release}{}", *HASH), Role::Viewer);
    app.key.token(&nobody).chars().take(16).collect()
}

fn entries(visit: &Visit, here: Nav) -> Vec<Entry> {
    let now = visit.tasks().clock().now();
    let overview = &visit.app.shelf.overview;
    let seen = overview.peek_fresh(OVERVIEW, now, BADGE_AGE);
    let dead = seen.map_or(0, |seen| seen.types.iter().map(|one| one.stats.dead).sum());
    let all = [
        (Nav::Overview, "Overview", "/", 'o'),
        (Nav::Dead, "Dead letters", "/dead", 'd'),
        (Nav::Recurring, "Recurring", "/recurring", 'r'),
        (Nav::Batches, "Batches", "/batches", 'b'),
        (Nav::Pools, "Pools", "/pools", 'p'),
        (Nav::Instances, "Instances", "/instances", 'i'),
        (Nav::History, "History", "/history", 'y'),
        (Nav::Log, "Log", "/log", 'l'),
        (Nav::Health, "Health", "/health", 'h'),
    ];
    let entries = all.into_iter().map(|(nav, name, path, key)| Entry {
        name,
        href: visit.href(&Link::to(path)),
        key,
        is_here: nav == here,
        badge: if nav == Nav::Dead && dead > 0 {
            count(dead)
        } else {
            String::new()
        },
    });
    entries.collect()
}
