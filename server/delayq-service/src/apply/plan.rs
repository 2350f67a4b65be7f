//! What an apply would do: the declared state beside what the stores have.

use std::collections::BTreeSet;

use delayq_core::documents::MAX_DOCUMENTS;
use delayq_plugin::store::Setting;
use delayq_plugin::{Namespace, TypeSettings};
use serde_json::Value;

use super::content::Content;
use super::document::NamespaceState;
use super::item::{Deed, Item, NewSecret, TokenDeed};
use super::note::Notes;
use super::present::{Actor, content_of, context, known_recurring, recurring, value};
use super::token_state::{TokenState, rights_of};
use super::wanted::{RecurringState, TypeState};
use super::{Change, Key, Kind, Refusal, SecretFolder, State, sharding};
use crate::access::TokenBook;
use crate::app::App;
use crate::context::Context;
use crate::operation::recurring::check;

/// How a state is applied.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// True if what an earlier apply made is removed once it is declared no more.
    pub is_pruning: bool,
    /// True if nothing is done, so that no file is needed for new secrets.
    pub is_only_looking: bool,
    /// Where new secrets go.
    pub secrets: Option<SecretFolder>,
    /// Who applies it, for the log of actions.
    pub actor: String,
    /// The place it is applied from.
    pub origin: String,
}

/// What an apply does, in its order.
#[derive(Debug)]
pub struct Plan {
    /// The name of the state.
    pub name: String,
    pub items: Vec<Item>,
    /// The number of things that an earlier apply made and that are declared no more, where they
    /// are not removed.
    pub left_over: usize,
    pub(super) app: App,
    pub(super) actor: Actor,
    pub(super) options: PlanOptions,
    pub(super) notes: Notes,
    /// Notes of things that are gone.
    pub(super) stale: Vec<Key>,
}

impl Plan {
    /// Checks a state as a whole, and compares it with what is there. Changes nothing.
    ///
    /// # Errors
    /// The first thing that cannot be as it is declared, and errors of the stores.
    pub async fn new(app: &App, state: &State, options: PlanOptions) -> Result<Self, Refusal> {
        let notes = Notes::read(&app.own, &state.name).await?;
        let mut plan = Self {
            name: state.name.clone(),
            items: Vec::new(),
            left_over: 0,
            app: app.clone(),
            actor: Actor {
                name: options.actor.clone(),
                origin: options.origin.clone(),
            },
            options,
            notes,
            stale: Vec::new(),
        };
        for (namespace, state) in &state.namespaces {
            plan.add_namespace(namespace, state).await?;
        }
        for (name, token) in &state.tokens {
            plan.add_token(name, token)?;
        }
        plan.notes.check(&plan.items)?;
        plan.check_tokens()?;
        plan.add_removals().await?;
        Ok(plan)
    }

    /// True if something would be done.
    pub fn has_deeds(&self) -> bool {
        self.items.iter().any(|item| item.change.is_deed())
    }

    /// Refuses more tokens than there is room for.
    fn check_tokens(&self) -> Result<(), Refusal> {
        let is_new = |item: &&Item| matches!(item.deed, Deed::Token(TokenDeed::Create { .. }));
        let new = self.items.iter().filter(is_new).count();
        if new > 0 && self.app.tokens.all().len() + new > MAX_DOCUMENTS {
            let text = "there are 10,000 tokens: revoke some";
            return Err(Refusal::new(text));
        }
        Ok(())
    }

    async fn add_namespace(
        &mut self,
        namespace: &Namespace,
        state: &NamespaceState,
    ) -> Result<(), Refusal> {
        let context = context(&self.app, &self.actor, namespace.as_str()).await?;
        for one in &state.types {
            self.add_type(&context, one).await?;
        }
        for one in &state.recurring {
            self.add_recurring(&context, one).await?;
        }
        Ok(())
    }

    async fn add_type(&mut self, context: &Context, state: &TypeState) -> Result<(), Refusal> {
        let of = |kind| Key {
            kind,
            namespace: context.space.namespace.to_string(),
            name: state.pattern.to_string(),
        };
        sharding::check(context, &of(Kind::Shards), state).await?;
        for (kind, to, deed) in settings(&state.settings) {
            let key = of(kind);
            let from = value(context, &key, None).await?;
            let to = to.map(Content::plain);
            let mut item = Item::new(key, from, to, Deed::Configure(deed));
            if kind == Kind::Shards && is_enough(&item) {
                item.change = Change::Unchanged;
            }
            self.items.push(item);
        }
        if let Some(is_paused) = state.is_paused {
            let key = of(Kind::Paused);
            let from = value(context, &key, None).await?;
            let to = is_paused.then(|| Content::plain(true.into()));
            self.items
                .push(Item::new(key, from, to, Deed::Pause(is_paused)));
        }
        if let Some(policy) = state.policy {
            let key = of(Kind::Policy);
            let from = value(context, &key, None).await?;
            let to = Content::plain(serde_json::json!(policy));
            let deed = Deed::Policy(Some(policy));
            self.items.push(Item::new(key, from, Some(to), deed));
        }
        if state.target.is_some() {
            self.add_target(context, of(Kind::Target), state).await?;
        }
        Ok(())
    }

    async fn add_target(
        &mut self,
        context: &Context,
        key: Key,
        state: &TypeState,
    ) -> Result<(), Refusal> {
        let Some(target) = state.target.clone() else {
            return Ok(());
        };
        let prepared = context.space.push.prepared(&state.pattern, target);
        let prepared = prepared.await.map_err(|error| Refusal::at(&key, error))?;
        let before = prepared.before.as_deref();
        let from = before.map(content_of).transpose()?;
        let to = content_of(&prepared.target)?;
        let is_same = before == Some(&prepared.target);
        let name = format!("{}.{}", key.namespace, key.name);
        let mut secret = None;
        if let Some(text) = prepared.made {
            self.expect_folder(&key, "http.secrets")?;
            let file = self.secret_file(&key, &name, "whsec")?;
            secret = Some(NewSecret { file, text });
        }
        let deed = Deed::Target(Some(Box::new(prepared.target)));
        let mut item = Item::new(key, from, Some(to), deed);
        if !is_same {
            item = item.differing("a secret, a header or the query of its URL");
        }
        item.secret = secret;
        self.items.push(item);
        Ok(())
    }

    async fn add_recurring(
        &mut self,
        context: &Context,
        state: &RecurringState,
    ) -> Result<(), Refusal> {
        let key = Key {
            kind: Kind::Recurring,
            namespace: context.space.namespace.to_string(),
            name: state.id.clone(),
        };
        let checked = check(context, &state.id, &state.task);
        checked.map_err(|error| Refusal::at(&key, error))?;
        let known = known_recurring(context, &state.id).await?;
        let is_same = known
            .as_ref()
            .is_some_and(|known| known.is_same(&state.task));
        let from = known.map(|known| recurring(&known)).transpose()?;
        let to = recurring(&state.task)?;
        let deed = Deed::Recurring(Some(state.task.clone()));
        let mut item = Item::new(key, from, Some(to), deed);
        if !is_same {
            item = item.differing("its message");
        }
        self.items.push(item);
        Ok(())
    }

    fn add_token(&mut self, name: &str, state: &TokenState) -> Result<(), Refusal> {
        let key = Key {
            kind: Kind::Token,
            namespace: String::new(),
            name: name.to_owned(),
        };
        let at = |text: String| Refusal::at(&key, text);
        let all = self.app.tokens.all();
        let mut known = all.iter().filter(|token| token.name == name);
        let (first, second) = (known.next(), known.next());
        if second.is_some() {
            let text = "several tokens have this name: revoke all but one";
            return Err(at(text.to_owned()));
        }
        let Some(known) = first else {
            return self.add_new_token(key, state);
        };
        let mut hash = None;
        if let Some((id, given)) = &state.given {
            if *id != known.id {
                return Err(at(format!(
                    "it has the id {}, and the given secret has {id}: revoke it, or give another \
                     secret",
                    known.id
                )));
            }
            hash = (*given != known.hash).then(|| given.clone());
        }
        let is_other_secret = hash.is_some();
        let deed = Deed::Token(TokenDeed::Change {
            token: state.token(name),
            id: known.id.clone(),
            hash,
        });
        let [from, to] = [rights_of(known), state.rights()].map(Content::plain);
        let mut item = Item::new(key, Some(from), Some(to), deed);
        if is_other_secret {
            item = item.differing("its secret");
        }
        self.items.push(item);
        Ok(())
    }

    fn add_new_token(&mut self, key: Key, state: &TokenState) -> Result<(), Refusal> {
        let mut secret = None;
        let (id, hash) = if let Some(given) = &state.given {
            given.clone()
        } else {
            self.expect_folder(&key, "secret")?;
            let file = self.secret_file(&key, &key.name, "token")?;
            let text = TokenBook::new_text()?;
            let hashed = TokenBook::hash_given(&text);
            secret = Some(NewSecret { file, text });
            hashed.map_err(|reason| Refusal::at(&key, reason))?
        };
        if self.app.tokens.all().iter().any(|token| token.id == id) {
            let text = format!("another token has the id {id}: give another secret");
            return Err(Refusal::at(&key, text));
        }
        let token = state.token(&key.name);
        let deed = Deed::Token(TokenDeed::Create { token, id, hash });
        let to = Content::plain(state.rights());
        let mut item = Item::new(key, None, Some(to), deed);
        item.secret = secret;
        self.items.push(item);
        Ok(())
    }

    /// The file for a new secret.
    fn secret_file(
        &self,
        key: &Key,
        name: &str,
        kind: &str,
    ) -> Result<Option<std::path::PathBuf>, Refusal> {
        let folder = self.options.secrets.as_ref();
        let note = self.notes.get(key);
        folder
            .map(|folder| folder.place(name, kind, note))
            .transpose()
    }

    /// Refuses a new secret that would go nowhere.
    fn expect_folder(&self, key: &Key, field: &str) -> Result<(), Refusal> {
        if self.options.secrets.is_some() || self.options.is_only_looking {
            return Ok(());
        }
        let text =
            format!("it gets a new secret: give {field}, or a folder for it, --tokens-to DIR");
        Err(Refusal::at(key, text))
    }

    /// Adds what earlier applies of this state made and what it declares no more.
    async fn add_removals(&mut self) -> Result<(), Refusal> {
        let declared: BTreeSet<_> = self.items.iter().map(|item| item.key.clone()).collect();
        let notes = self
            .notes
            .all()
            .filter(|note| !declared.contains(&note.key));
        let notes: Vec<_> = notes.cloned().collect();
        for note in notes {
            let key = note.key.clone();
            // A token has its log in its namespace, and is itself in no namespace.
            let namespace = match key.kind {
                Kind::Token => Namespace::default().to_string(),
                _ => key.namespace.clone(),
            };
            if !self
                .app
                .spaces
                .names()
                .iter()
                .any(|one| one.as_str() == namespace)
            {
                // The namespace is configured no more, with what it had.
                self.left_over += 1;
                continue;
            }
            let context = context(&self.app, &self.actor, &namespace).await?;
            let Some(from) = value(&context, &key, note.id.as_deref()).await? else {
                self.stale.push(key);
                continue;
            };
            if !self.options.is_pruning {
                self.left_over += 1;
                continue;
            }
            let is_own = note.is_of(&from.print);
            let deed = self.removal(&key, note.id.as_deref());
            let mut item = Item::new(key, Some(from), None, deed);
            (item.change, item.deed) = if is_own {
                (Change::Removed, item.deed)
            } else {
                item.detail = Some("somebody else has changed it since".to_owned());
                (Change::Kept, Deed::Nothing)
            };
            self.items.push(item);
        }
        Ok(())
    }

    fn removal(&self, key: &Key, id: Option<&str>) -> Deed {
        let configure = |settings| Deed::Configure(settings);
        let none = TypeSettings::default();
        match key.kind {
            Kind::MaxPending => configure(none.max_pending(None)),
            Kind::FleetConcurrency => configure(none.fleet_concurrency(None)),
            Kind::FleetRate => configure(none.fleet_rate(None)),
            // It is never lowered, and so has no note.
            Kind::Shards => Deed::Nothing,
            Kind::Paused => Deed::Pause(false),
            Kind::Policy => Deed::Policy(None),
            Kind::Target => Deed::Target(None),
            Kind::Recurring => Deed::Recurring(None),
            Kind::Token => {
                let all = self.app.tokens.all();
                let known = all.iter().find(|token| Some(token.id.as_str()) == id);
                known.map_or(Deed::Nothing, |token| {
                    Deed::Token(TokenDeed::Revoke {
                        id: token.id.clone(),
                        namespace: token.namespace.clone(),
                    })
                })
            }
        }
    }
}

/// True if a type has as many shards as are wanted, or more: the number is never lowered.
fn is_enough(item: &Item) -> bool {
    let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_u64).unwrap_or(1);
    number(&item.from) >= number(&item.to)
}

/// The settings that a change names, each as a change of its own.
fn settings(all: &TypeSettings) -> Vec<(Kind, Option<Value>, TypeSettings)> {
    let mut each = Vec::new();
    let none = TypeSettings::default;
    match all.max_pending {
        Setting::Keep => {}
        Setting::Unset => each.push((Kind::MaxPending, None, none().max_pending(None))),
        Setting::To(most) => {
            let one = none().max_pending(Some(most));
            each.push((Kind::MaxPending, Some(most.into()), one));
        }
    }
    match all.fleet_concurrency {
        Setting::Keep => {}
        Setting::Unset => each.push((Kind::FleetConcurrency, None, none().fleet_concurrency(None))),
        Setting::To(most) => {
            let one = none().fleet_concurrency(Some(most));
            each.push((Kind::FleetConcurrency, Some(most.into()), one));
        }
    }
    match all.fleet_rate {
        Setting::Keep => {}
        Setting::Unset => each.push((Kind::FleetRate, None, none().fleet_rate(None))),
        Setting::To(rate) => {
            let one = none().fleet_rate(Some(rate));
            each.push((Kind::FleetRate, Some(serde_json::json!(rate)), one));
        }
    }
    if let Some(shards) = all.shards {
        each.push((Kind::Shards, Some(shards.into()), none().shards(shards)));
    }
    each
}
