//! A value that another thread gives.
//!
//! A channel would do, but the first wait of a thread for a channel needs a lock of the dynamic linker, and a profiler may hold that for good.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// See the module documentation.
#[derive(Debug)]
pub struct Answer<T>(Arc<(Mutex<Option<T>>, Condvar)>);

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Answer<T> {
        Answer(self.0.clone())
    }
}

impl<T> Default for Answer<T> {
    fn default() -> Answer<T> {
        Answer(Arc::new((Mutex::new(None), Condvar::new())))
    }
}

impl<T> Answer<T> {
    /// Gives it.
    pub fn give(&self, value: T) {
        *self.0.0.lock().expect("no panic while locked") = Some(value);
        self.0.1.notify_all();
    }

    /// Whether it is there.
    pub fn is_given(&self) -> bool {
        self.0.0.lock().expect("no panic while locked").is_some()
    }

    /// Takes it, or waits for it. `None` if it did not come in time.
    pub fn wait(&self, longest: Duration) -> Option<T> {
        let value = self.0.0.lock().expect("no panic while locked");
        let waited = self.0.1.wait_timeout_while(value, longest, |value| value.is_none());
        waited.expect("no panic while locked").0.take()
    }
}
