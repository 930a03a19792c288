//! The test and the world that an assertion belongs to. Both are known per thread.

use std::cell::RefCell;

thread_local! {
    static CURRENT: RefCell<Place> = const { RefCell::new(Place { world: None, test: None }) };
}

/// The test and the world of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    world: Option<String>,
    test: Option<String>,
}

impl Place {
    /// The place of this thread. Hand it to threads that a test starts: `thread::spawn(move || place.inside(|| ...))`.
    pub fn current() -> Place {
        let place = CURRENT.with_borrow(Clone::clone);
        Place { test: place.test(), ..place }
    }

    /// This place, in a world: `clr 8.0.4`, `sim desktop4`.
    pub fn in_world(self, world: &str) -> Place {
        assert!(
            world.starts_with("clr ") || world.starts_with("sim "),
            "`{world}` is not a world: it is one as `clr 8.0.4` or `sim desktop4`"
        );
        Place { world: Some(world.to_owned()), ..self }
    }

    /// This place, in a test.
    pub fn in_test(self, test: &str) -> Place {
        Place { test: Some(test.to_owned()), ..self }
    }

    /// Runs `body` at this place, on this thread.
    pub fn inside<T>(self, body: impl FnOnce() -> T) -> T {
        let _back = Back(CURRENT.replace(self));
        body()
    }

    /// The world, if one is set.
    pub(crate) fn world(&self) -> Option<&str> {
        self.world.as_deref()
    }

    /// The test's path: as set, or else as the test runner names it.
    pub(crate) fn test(&self) -> Option<String> {
        let of_thread = || std::thread::current().name().filter(|name| *name != "main").map(str::to_owned);
        // The runner of `cargo xtask` runs one test in each process.
        self.test.clone().or_else(of_thread).or_else(|| std::env::var("NEXTEST_TEST_NAME").ok())
    }
}

/// Sets the place back, also after a panic.
struct Back(Place);

impl Drop for Back {
    fn drop(&mut self) {
        CURRENT.set(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_holds_for_its_body_and_can_be_handed_to_a_thread() {
        let test = Place::current().test();
        assert!(test.as_deref().is_some_and(|test| test.ends_with("handed_to_a_thread")), "{test:?}");
        Place::current().in_world("sim 8").inside(|| {
            let place = Place::current();
            std::thread::spawn(move || {
                assert_eq!(Place::current().world(), None);
                place.inside(|| assert_eq!((Place::current().world(), Place::current().test()), (Some("sim 8"), test)));
            })
            .join()
            .expect("the thread sees its place");
        });
        assert_eq!(Place::current().world(), None);
    }

    #[test]
    fn a_body_that_panics_leaves_no_world_behind() {
        let body = || Place::current().in_world("clr 8.0.4").inside(|| panic!("on purpose"));
        assert!(std::panic::catch_unwind(body).is_err());
        assert_eq!(Place::current().world(), None);
    }
}
