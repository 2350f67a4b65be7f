//! Hostile texts in ids, headers, errors, messages, names of hosts and actors: whatever they hold,
//! the page has the tags and attributes that it has with a harmless one.

use std::collections::BTreeSet;
use std::time::Duration;

use delayq_admin::{Admin, Role, Viewer};
use delayq_plugin::history::{Life, LifeOutcome};
use delayq_plugin::{Clock, DelayQueueJob, InstanceId, InstanceInfo, TaskId, TaskType};
use scraper::{Html, Node};

use crate::shop::{PAGES, Shop, encoded, get};

/// One JSON string a line.
const CORPUS: &str = include_str!("corpus.txt");

fn corpus() -> Vec<String> {
    CORPUS
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The tags of a page with the names of their attributes, in their order; of links and forms also
/// where they lead to, without the query.
fn skeleton(text: &str) -> Vec<String> {
    let html = Html::parse_document(text);
    let nodes = html.tree.nodes().map(|node| node.value().clone());
    let tags = nodes.filter_map(|node| match node {
        Node::Element(tag) => {
            let mut names: Vec<_> = tag.attrs().map(|(name, _)| name.to_owned()).collect();
            names.sort_unstable();
            let to = tag.attr("href").or(tag.attr("action")).or(tag.attr("src"));
            let to = to.unwrap_or_default().split('?').next().unwrap().to_owned();
            Some(format!("{} {} {to}", tag.name(), names.join(",")))
        }
        Node::Comment(text) => Some(format!("comment {}", &*text)),
        _ => None,
    });
    tags.collect()
}

/// Where a text may stand, as the pages see it.
struct Planted {
    shop: Shop,
    paths: Vec<String>,
}

/// Records the end of a task with the text in all its fields.
async fn end_in_history(shop: &Shop, name: &str, id: &str, text: &str) {
    let (task_type, id) = (TaskType::new(name).unwrap(), TaskId::new(id).unwrap());
    let mut life = Life::new(task_type, id, LifeOutcome::Dead, shop.clock.now());
    let own = || Some(text.to_owned());
    (life.group, life.project, life.holder, life.error) = (own(), own(), own(), own());
    shop.history.record(&[life]).await.unwrap();
}

impl Planted {
    async fn new(text: &str) -> Self {
        let shop = Shop::empty();
        let id = TaskId::new(text).map_or_else(|_| "plain".to_owned(), |id| id.to_string());
        let name = TaskType::new(text).map_or_else(|_| "mail".to_owned(), |name| name.to_string());
        // A header that the rules refuse is left out.
        let send = async |id: &str| {
            let job = DelayQueueJob::raw(&*name, text.as_bytes()).id(id);
            let job = job.after(Duration::ZERO);
            let job = if is_header(text) {
                job.header("tenant", text)
            } else {
                job
            };
            shop.tasks.send(job).await.unwrap();
        };
        send("dead").await;
        shop.end_next(&name, crate::shop::dead(text)).await;
        send(&id).await;
        let host = InstanceInfo::new(InstanceId::generate(), text, 17, shop.clock.now());
        let host = host.serving(&[TaskType::new(&*name).unwrap()]);
        shop.tasks
            .store()
            .announce(&host, Duration::from_hours(1))
            .await
            .unwrap();
        let _ = delayq_ops::Operator::new(&shop.tasks, text, text)
            .cancel(&name, &id)
            .await
            .unwrap();
        send("later").await;
        end_in_history(&shop, &name, &id, text).await;
        let query = |path: &str, fields: &[(&str, &str)]| format!("{path}?{}", encoded(fields));
        let of = ("type", &*name);
        let short: String = text.chars().take(300).collect();
        let paths = vec![
            "/".to_owned(),
            query("/", &[("q", &short)]),
            query("/type", &[("name", &name)]),
            query("/type", &[("name", &short)]),
            query("/tasks", &[of]),
            query("/tasks", &[of, ("state", "dead")]),
            query(
                "/tasks",
                &[of, ("state", "dead"), ("by", "error"), ("q", &short)],
            ),
            query("/tasks", &[of, ("state", "cancelled")]),
            query("/tasks", &[of, ("by", "prefix"), ("q", &short)]),
            query("/tasks", &[("type", &short)]),
            query("/task", &[of, ("id", "later")]),
            query("/task", &[of, ("id", "later"), ("as", "text")]),
            query("/task", &[of, ("id", "later"), ("as", "hex")]),
            query("/task", &[of, ("id", "dead")]),
            query("/task", &[of, ("id", &id)]),
            "/dead".to_owned(),
            query("/dead", &[("type", &short)]),
            query("/dead/requeue", &[of, ("by", "group"), ("group", &short)]),
            query("/dead/discard", &[of]),
            query("/type/purge", &[("name", &short)]),
            query("/tasks/cancel", &[of, ("by", "prefix"), ("q", &short)]),
            "/instances".to_owned(),
            "/log".to_owned(),
            query("/log", &[("actor", &short), ("text", &short)]),
            "/health".to_owned(),
            "/history".to_owned(),
            query("/history", &[("since", &format!("no time {short}"))]),
        ];
        Self { shop, paths }
    }

    async fn skeletons(&self, viewer: &str) -> Vec<(u16, Vec<String>)> {
        let viewer = viewer.to_owned();
        let admin = Admin::new(self.shop.tasks.clone());
        let admin = admin.authorize(move |_| Some(Viewer::new(viewer.clone(), Role::Admin)));
        let page = admin.router();
        let mut found = Vec::new();
        for path in &self.paths {
            let answer = get(&page, path).await;
            found.push((answer.status.as_u16(), skeleton(&answer.text)));
        }
        found
    }
}

/// True if the text can be the value of a header.
fn is_header(text: &str) -> bool {
    let is_control = |c: char| c.is_ascii_control() && c != '\t';
    !text.contains(is_control) && text.trim_matches([' ', '\t']) == text
}

/// A harmless text that is as the hostile one where the pages may differ for good reason: whether
/// it can be a type, an id or a header, is JSON, can be edited as text, is a number or empty.
fn harmless(hostile: &str) -> String {
    let is_type = TaskType::new(hostile).is_ok();
    let is_id = TaskId::new(hostile).is_ok();
    let is_json = serde_json::from_str::<serde_json::Value>(hostile).is_ok();
    match (is_type, is_id, is_json) {
        (true, _, true) => return "7".to_owned(),
        (true, _, false) => return "harmless".to_owned(),
        (_, true, true) => return "\"harmless\"".to_owned(),
        (_, true, false) => return "harmless,id".to_owned(),
        (false, false, true) if is_header(hostile) => return "\"harmless text\"".to_owned(),
        (false, false, true) => return "\"harmless text\" ".to_owned(),
        _ => {}
    }
    let control = if hostile.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        "\u{1}"
    } else {
        ""
    };
    let pad = "x".repeat(hostile.chars().count().saturating_sub(14).min(4_000));
    let end = if is_header(hostile) { "" } else { " " };
    format!("harmless text{control}{pad}{end}")
}

/// A page whose content the text decides, such as what a search finds: it may have more or fewer of
/// the tags that pages have.
fn is_search(path: &str) -> bool {
    ["q=", "group=", "text=", "/dead?"]
        .iter()
        .any(|part| path.contains(part))
}

/// Every tag, with the names of its attributes, that a page has where nothing hostile is.
async fn own_tags() -> BTreeSet<String> {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    let mut tags = BTreeSet::new();
    let mistakes = [
        "/type?name=%20a",
        "/tasks?type=%20a",
        "/tasks/cancel?type=a&by=id&q=a",
    ];
    for path in PAGES.into_iter().chain(mistakes) {
        tags.extend(skeleton(&get(&page, path).await.text));
    }
    let planted = Planted::new("harmless").await;
    let skeletons = planted.skeletons("ann").await;
    tags.extend(skeletons.into_iter().flat_map(|(_, tags)| tags));
    // A choice that was made, and one that cannot be made.
    tags.insert("option selected,value ".to_owned());
    tags.insert("button class,disabled ".to_owned());
    tags
}

#[tokio::test]
async fn no_text_changes_the_tags_of_a_page() {
    let (corpus, own) = (corpus(), own_tags().await);
    assert!(corpus.len() >= 150, "{}", corpus.len());
    for hostile in &corpus {
        let bad = Planted::new(hostile).await;
        let good = Planted::new(&harmless(hostile)).await;
        let seen = bad.skeletons(hostile).await;
        let expected = good.skeletons("ann").await;
        for ((path, seen), expected) in bad.paths.iter().zip(seen).zip(expected) {
            let what = hostile.chars().take(80).collect::<String>();
            let foreign: Vec<_> = seen.1.iter().filter(|tag| !own.contains(*tag)).collect();
            assert!(foreign.is_empty(), "{path} with {what:?}: {foreign:?}");
            let is_same = seen == expected || is_search(path);
            let first = seen
                .1
                .iter()
                .zip(&expected.1)
                .position(|(one, two)| one != two);
            let at = first.unwrap_or(seen.1.len().min(expected.1.len()));
            let [one, two] = [&seen.1, &expected.1].map(|tags| tags.get(at));
            assert!(
                is_same,
                "{path} with {what:?}: tag {at}: {one:?} is not {two:?}"
            );
        }
    }
}

#[tokio::test]
async fn what_cannot_be_seen_is_shown_as_what_it_is() {
    let planted = Planted::new("a\u{202e}b\0c\x1b").await;
    let page = planted.shop.page(Role::Admin);
    let text = get(&page, "/task?type=mail&id=later").await.text;
    assert!(text.contains("a⟨U+202E⟩b␀c␛"), "{text}");
    for path in &planted.paths {
        let html = Html::parse_document(&get(&page, path).await.text);
        let shown: String = html.root_element().text().collect();
        assert!(
            !shown.contains(['\u{202e}', '\0', '\u{fffd}', '\x1b']),
            "{path}: {shown}"
        );
    }
}
