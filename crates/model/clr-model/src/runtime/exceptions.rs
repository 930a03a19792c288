//! Exceptions, as far as profilers see them.

use super::calls::{call_all, low};
use super::{Runtime, Shape};
use corprof::sys;

/// ExceptionThrown_V1 (source: ClrEtwAll.man).
const EXCEPTION_THROWN: u32 = 80;
/// Bytes of an exception object.
const SIZE: usize = 152;

impl Runtime {
    /// The running thread throws an exception and catches it in the same method. Sessions get the event, profilers the callback.
    pub fn throw_and_catch(&self) {
        let class = self.framework_class();
        let exception = self.allocate(class, Shape { size: SIZE, ..Shape::default() });
        self.write_event(EXCEPTION_THROWN, &[]);
        self.in_cooperative_mode(|| {
            let id = self.object(exception).map_or(0, |object| object.0);
            call_all!(self, low(sys::COR_PRF_MONITOR_EXCEPTIONS), exception_thrown(id));
        });
        self.forget(exception);
    }
}
