//! A server that ends with the test.

use crate::support::index_of_shop;
use remora_heap_view::{Server, View};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// See above.
pub struct Running {
    pub address: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn of(view: View) -> Running {
        let server = Server::listen(0, view).unwrap();
        let (address, ends) = (server.address(), Arc::new(AtomicBool::new(false)));
        let reported = Arc::clone(&ends);
        let thread = thread::spawn(move || server.serve(&mut || !reported.load(Ordering::Relaxed)).unwrap());
        Running { address, ends, thread: Some(thread) }
    }

    /// Over the index of [`shop`].
    pub fn shop() -> Running {
        Running::of(View::new(index_of_shop(), "shop.remora-heap".into(), || Err("nobody makes one".into())))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(thread::panicking() || ended.is_ok());
    }
}
