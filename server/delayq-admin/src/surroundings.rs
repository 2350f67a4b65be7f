//! What an application with several pages has around each: other places, and the way out.

/// A place to go to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) href: String,
    pub(crate) is_here: bool,
}

/// What stands in the head of the page beside its own navigation: a switch between several pages,
/// such as those of namespaces, and a button to sign out.
#[derive(Clone, Debug, Default)]
#[must_use = "return it from the rule of Admin::surroundings"]
pub struct Surroundings {
    pub(crate) places: Vec<Place>,
    pub(crate) home: Option<Place>,
    pub(crate) sign_out: Option<String>,
}

impl Surroundings {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a page to the switch: its name, and its path on this server.
    pub fn place(mut self, name: impl Into<String>, href: impl Into<String>) -> Self {
        self.places.push(Place {
            name: name.into(),
            href: href.into(),
            is_here: false,
        });
        self
    }

    /// Marks the place of this name as the page that is shown.
    pub fn here(mut self, name: &str) -> Self {
        for place in &mut self.places {
            place.is_here = place.name == name;
        }
        self
    }

    /// The list of all places: its name, and its path on this server.
    pub fn home(mut self, name: impl Into<String>, href: impl Into<String>) -> Self {
        self.home = Some(Place {
            name: name.into(),
            href: href.into(),
            is_here: false,
        });
        self
    }

    /// A button that posts an empty form to this path.
    pub fn sign_out(mut self, path: impl Into<String>) -> Self {
        self.sign_out = Some(path.into());
        self
    }

    /// The name of the page that is shown, for the switch.
    pub(crate) fn shown(&self) -> &str {
        let here = self.places.iter().find(|place| place.is_here);
        here.map_or("Switch", |place| &place.name)
    }
}
