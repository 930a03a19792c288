//! Exceptions, as far as profilers see them.

use super::calls::{call_all, low};
use super::{FunctionId, Runtime, Shape};
use corprof::sys;

/// ExceptionThrown_V1 (source: ClrEtwAll.man).
const EXCEPTION_THROWN: u32 = 80;
/// Bytes of an exception object.
const SIZE: usize = 152;

/// How the throwing method handles its exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handler {
    /// With a plain catch.
    Catch,
    /// With a filter, and a finally inside the guarded code.
    FilterAndFinally,
}

impl Runtime {
    /// The running thread throws an exception and catches it in the same method. Sessions get the event, profilers the callbacks of both
    /// passes. Without a method there is only the first (source: eetoprofinterfacewrapper.inl; live: tests/conformance/tests/callbacks.rs).
    pub fn throw_and_catch(&self) {
        self.throw(Handler::Catch);
    }

    /// The same, through a finally, and with a filter that accepts it. Both have callbacks (live: tests/conformance/tests/callbacks.rs).
    pub fn throw_and_filter(&self) {
        self.throw(Handler::FilterAndFinally);
    }

    fn throw(&self, handler: Handler) {
        let class = self.framework_class();
        let exception = self.allocate(class, Shape { size: SIZE, ..Shape::default() });
        self.write_event(EXCEPTION_THROWN, &[]);
        let wanted = low(sys::COR_PRF_MONITOR_EXCEPTIONS);
        self.in_cooperative_mode(|| {
            let id = self.object(exception).map_or(0, |object| object.0);
            call_all!(self, &wanted, exception_thrown(id));
        });
        if let Some(FunctionId(function)) = self.running_function() {
            call_all!(self, &wanted, exception_search_function_enter(function));
            if handler == Handler::FilterAndFinally {
                call_all!(self, &wanted, exception_search_filter_enter(function));
                call_all!(self, &wanted, exception_search_filter_leave());
            }
            call_all!(self, &wanted, exception_search_catcher_found(function));
            call_all!(self, &wanted, exception_search_function_leave());
            self.in_cooperative_mode(|| {
                call_all!(self, &wanted, exception_unwind_function_enter(function));
                if handler == Handler::FilterAndFinally {
                    call_all!(self, &wanted, exception_unwind_finally_enter(function));
                    call_all!(self, &wanted, exception_unwind_finally_leave());
                }
                let id = self.object(exception).map_or(0, |object| object.0);
                call_all!(self, &wanted, exception_catcher_enter(function, id));
                call_all!(self, &wanted, exception_catcher_leave());
            });
        }
        self.forget(exception);
    }

    /// The method at the top of the running thread's stack.
    fn running_function(&self) -> Option<FunctionId> {
        let top = *self.stack()?.1.first()?;
        let state = self.lock();
        state
            .code
            .function_at(top)
            .filter(|function| state.code.functions.get(function).is_some_and(|one| one.module.is_some()))
    }
}
