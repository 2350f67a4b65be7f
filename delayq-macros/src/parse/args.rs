//! The arguments of `#[task_worker(..)]`.

use std::time::Duration;

use darling::ast::NestedMeta;
use darling::util::SpannedValue;
use darling::{Error, FromMeta, Result};
use proc_macro2::{Ident, TokenStream};
use syn::{ExprPath, Meta};

use super::compatible;
use super::options::{OPTIONS, RETRY_OPTIONS, list, read};
use super::rate::{self, Rate};
use super::recording::{self, Recording};
use super::schedule::{self, Every};
use super::value::{self, TypeName};

/// The longest wait between attempts if `cap` is not given, as in delayq-core's
/// `RetryPolicy::DEFAULT`.
const DEFAULT_CAP: Duration = Duration::from_mins(10);

/// The options, each of them valid and consistent with the others.
#[derive(Default, FromMeta)]
pub(crate) struct Args {
    /// The task type or pattern; always present once `parse` has succeeded.
    #[darling(default, rename = "type", with = value::task_type)]
    pub(crate) task_type: Option<SpannedValue<TypeName>>,
    #[darling(default, with = value::worker_name)]
    pub(crate) name: Option<SpannedValue<String>>,
    #[darling(default)]
    pub(crate) retry: Option<SpannedValue<Retry>>,
    #[darling(default, with = value::count)]
    pub(crate) max_releases: Option<SpannedValue<u32>>,
    #[darling(default, with = value::timeout)]
    pub(crate) timeout: Option<SpannedValue<Duration>>,
    #[darling(default, with = value::lock)]
    pub(crate) lock: Option<SpannedValue<Duration>>,
    #[darling(default, with = value::count)]
    pub(crate) concurrency: Option<SpannedValue<u32>>,
    #[darling(default, with = value::pool)]
    pub(crate) pool: Option<SpannedValue<String>>,
    #[darling(default, with = value::weight)]
    pub(crate) weight: Option<SpannedValue<u32>>,
    /// A variant of `Delivery`.
    #[darling(default, with = value::delivery)]
    pub(crate) delivery: Option<SpannedValue<Ident>>,
    #[darling(default, with = value::flag)]
    pub(crate) blocking: bool,
    /// A variant of `OnLate`.
    #[darling(default, with = value::on_late)]
    pub(crate) on_late: Option<SpannedValue<Ident>>,
    #[darling(default, with = value::duration)]
    pub(crate) late_after: Option<SpannedValue<Duration>>,
    #[darling(default, with = value::late_spread)]
    pub(crate) late_spread: Option<SpannedValue<Duration>>,
    #[darling(default, with = value::count)]
    pub(crate) fleet_concurrency: Option<SpannedValue<u32>>,
    #[darling(default, with = rate::rate)]
    pub(crate) fleet_rate: Option<SpannedValue<Rate>>,
    #[darling(default, with = value::count)]
    pub(crate) max_pending: Option<SpannedValue<u32>>,
    #[darling(default, with = value::shards)]
    pub(crate) shards: Option<SpannedValue<u32>>,
    #[darling(default, with = recording::recording)]
    pub(crate) history: Option<SpannedValue<Recording>>,
    #[darling(default, with = value::kept_for)]
    pub(crate) history_retention: Option<SpannedValue<Duration>>,
    #[darling(default, with = value::flag)]
    pub(crate) quote_message: bool,
    #[darling(default, with = schedule::every)]
    pub(crate) every: Option<SpannedValue<Every>>,
    #[darling(default, with = schedule::zone)]
    pub(crate) zone: Option<SpannedValue<String>>,
    #[darling(default, with = value::count)]
    pub(crate) version: Option<SpannedValue<u32>>,
    #[darling(default, with = compatible::function)]
    pub(crate) upcast: Option<SpannedValue<ExprPath>>,
    #[darling(default, with = compatible::task_types)]
    pub(crate) alias: Option<SpannedValue<Vec<String>>>,
}

/// `retry = never` or `retry(..)`.
pub(crate) enum Retry {
    Never,
    Policy(RetryArgs),
}

/// The options of `retry(..)`.
#[derive(Default, FromMeta)]
pub(crate) struct RetryArgs {
    #[darling(default, with = value::count)]
    pub(crate) max: Option<SpannedValue<u32>>,
    /// A variant of `Backoff`.
    #[darling(default, with = value::backoff)]
    pub(crate) backoff: Option<SpannedValue<Ident>>,
    #[darling(default, with = value::duration)]
    pub(crate) base: Option<SpannedValue<Duration>>,
    #[darling(default, with = value::duration)]
    pub(crate) cap: Option<SpannedValue<Duration>>,
    /// In percent.
    #[darling(default, with = value::percent)]
    pub(crate) jitter: Option<SpannedValue<u8>>,
}

impl Args {
    /// Parses and checks the whole attribute.
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let args: Self = read(&list(tokens)?, OPTIONS)?;
        args.check()?;
        Ok(args)
    }

    /// Only the type, for code generated beside the error about another option.
    pub(crate) fn type_only(tokens: TokenStream) -> Self {
        let items = NestedMeta::parse_meta_list(tokens).unwrap_or_default();
        let task_type = items.iter().find_map(|item| match item {
            NestedMeta::Meta(meta) if meta.path().is_ident("type") => {
                value::task_type(meta).ok()?
            }
            _ => None,
        });
        Self {
            task_type,
            ..Self::default()
        }
    }

    fn check(&self) -> Result<()> {
        let mut errors = Error::accumulator();
        if self.task_type.is_none() {
            errors.push(Error::custom(
                "say which tasks it runs: write `#[task_worker(type = \"order.cancel\")]`",
            ));
        }
        errors.handle(self.check_delivery());
        errors.handle(self.check_fleet());
        errors.handle(self.check_shards());
        errors.handle(self.check_pool());
        errors.handle(self.check_late());
        errors.handle(self.check_spread());
        let task_type = self.task_type.as_deref();
        errors.handle(schedule::check(
            task_type,
            self.every.as_ref(),
            self.zone.as_ref(),
        ));
        errors.handle(self.check_compatible());
        errors.finish()
    }

    fn check_delivery(&self) -> Result<()> {
        match (&self.delivery, &self.retry) {
            (Some(delivery), Some(retry))
                if **delivery == "AtMostOnce" && matches!(**retry, Retry::Policy(_)) =>
            {
                Err(Error::custom(
                    "`delivery = at_most_once` never starts a task twice: remove this `retry(..)`, \
                     or remove the `delivery`",
                )
                .with_span(&retry.span()))
            }
            _ => Ok(()),
        }
    }

    fn check_fleet(&self) -> Result<()> {
        match (&self.delivery, &self.fleet_concurrency) {
            (Some(delivery), Some(fleet)) if **delivery == "AtMostOnce" => Err(Error::custom(
                "`fleet_concurrency` counts locks, and `delivery = at_most_once` gives them up before its \
                 tasks start: write `concurrency` or `fleet_rate` instead",
            )
            .with_span(&fleet.span())),
            _ => Ok(()),
        }
    }

    fn check_shards(&self) -> Result<()> {
        let concurrency = self.fleet_concurrency.as_ref();
        let limit = concurrency.map(|_| "fleet_concurrency");
        let limit = limit.or(self.fleet_rate.as_ref().map(|_| "fleet_rate"));
        match (&self.shards, limit) {
            (Some(shards), Some(limit)) if **shards > 1 => Err(Error::custom(format!(
                "a type with a fleet limit has one shard: remove `shards`, or remove `{limit}`"
            ))
            .with_span(&shards.span())),
            _ => Ok(()),
        }
    }

    fn check_compatible(&self) -> Result<()> {
        if let Some(upcast) = self.upcast.as_ref().filter(|_| self.version() == 1) {
            return Err(Error::custom(
                "say which version the function makes: add for example `version = 2`",
            )
            .with_span(&upcast.span()));
        }
        match (&self.alias, self.task_type.as_deref()) {
            (Some(alias), Some(task_type)) if task_type.is_pattern() => Err(Error::custom(
                "a pattern has no `alias`: write a worker of its own for the former name",
            )
            .with_span(&alias.span())),
            _ => Ok(()),
        }
    }

    /// The version of the messages that the worker is written for.
    pub(crate) fn version(&self) -> u32 {
        self.version.as_ref().map_or(1, |version| **version)
    }

    fn check_pool(&self) -> Result<()> {
        match (&self.pool, &self.weight) {
            (None, Some(weight)) => Err(Error::custom(
                "`weight` is the share of a pool: add for example `pool = \"mail\"`, or remove \
                 `weight`",
            )
            .with_span(&weight.span())),
            _ => Ok(()),
        }
    }

    fn check_spread(&self) -> Result<()> {
        let action = self.on_late.as_ref();
        match (action.filter(|action| ***action == "Spread"), &self.late_spread) {
            (Some(action), None) => Err(Error::custom(
                "say over which time late tasks are spread: add for example `late_spread = \"30m\"`",
            )
            .with_span(&action.span())),
            (None, Some(spread)) => Err(Error::custom(
                "`late_spread` is the time over which `on_late = spread` spreads tasks: write that, \
                 too, or remove `late_spread`",
            )
            .with_span(&spread.span())),
            _ => Ok(()),
        }
    }

    fn check_late(&self) -> Result<()> {
        match (&self.on_late, &self.late_after) {
            (Some(action), None) if **action != "Run" => Err(Error::custom(
                "say how late is too late: add for example `late_after = \"10m\"`",
            )
            .with_span(&action.span())),
            (Some(action), Some(after)) if **action == "Run" => Err(Error::custom(
                "`on_late = run` runs tasks however late: remove `late_after`, or write `on_late = \
                 drop`, `on_late = dead` or `on_late = spread`",
            )
            .with_span(&after.span())),
            (None, Some(after)) => Err(Error::custom(
                "say what happens to a task that is late: add `on_late = drop`, `on_late = dead` or \
                 `on_late = spread`",
            )
            .with_span(&after.span())),
            _ => Ok(()),
        }
    }
}

impl FromMeta for Retry {
    fn from_meta(item: &Meta) -> Result<Self> {
        match item {
            Meta::List(list) => {
                let args: RetryArgs = read(&self::list(list.tokens.clone())?, RETRY_OPTIONS)?;
                args.check()?;
                Ok(Self::Policy(args))
            }
            _ if value::is_word(item, "never") => Ok(Self::Never),
            _ => Err(Error::custom(
                "`retry` takes options in parentheses: write for example `retry(max = 5, backoff = \
                 exponential, base = \"1s\")`, or `retry = never`",
            )
            .with_span(item)),
        }
    }
}

impl RetryArgs {
    fn check(&self) -> Result<()> {
        let fixed = matches!(&self.backoff, Some(backoff) if **backoff == "Fixed");
        match (&self.base, &self.cap) {
            (Some(base), Some(cap)) if **base > **cap => Err(Error::custom(
                "the first wait, `base`, is longer than the longest one, `cap`: shorten it or \
                 lengthen `cap`",
            )
            .with_span(&base.span())),
            (Some(base), None) if **base > DEFAULT_CAP && !fixed => Err(Error::custom(
                "this first wait is longer than the longest one, which is 10 minutes by default: \
                 add a longer one, for example `cap = \"24h\"`",
            )
            .with_span(&base.span())),
            _ => Ok(()),
        }
    }

    /// The cap. A fixed wait longer than the default cap is its own cap.
    pub(crate) fn cap(&self) -> Option<Duration> {
        match (&self.cap, &self.base) {
            (Some(cap), _) => Some(**cap),
            (None, Some(base)) if **base > DEFAULT_CAP => Some(**base),
            _ => None,
        }
    }
}
