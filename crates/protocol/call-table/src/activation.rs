//! What the hooks do: a call begins, ends, or is unwound.

use crate::layout::{
    FOUND_LATE, HAS_VALUES, LONG_TICKS, LOST, LOST_BYTES, LOST_OBJECTS, LOST_THREADS, LongCall, UNMATCHED, ValuesPlace,
};
use crate::table::{Node, NodeId, Table};
use crate::threads::{CURRENT, ThreadRecord, UNWINDS};
use crate::values::Values;

/// Unwound calls whose end was not reported, that are ended at once.
const MOST_UNREPORTED: u32 = 16;

/// The current time, in ticks.
pub trait Clock {
    /// Ticks, never 0.
    fn now(&self) -> u64;
}

impl<F: Fn() -> u64> Clock for F {
    fn now(&self) -> u64 {
        self()
    }
}

/// A call of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its method.
    pub method: u32,
    /// The stack pointer of its caller: higher than that of every call inside it.
    pub frame: u64,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Returned,
    Unwound,
}

impl<'a> Table<'a> {
    /// A call begins. Its time begins with the last instruction here.
    #[inline]
    pub fn enter(&self, thread: ThreadRecord<'a>, call: Call, clock: &impl Clock) {
        self.enter_with(thread, call, None, clock);
    }

    /// The same, with the call's arguments.
    #[inline]
    pub fn enter_with(&self, thread: ThreadRecord<'a>, call: Call, values: Option<&Values>, clock: &impl Clock) {
        let current = self.innermost_above(thread, call.frame, clock);
        match self.child(current, call.method) {
            Some((id, node)) => {
                node.begin(call.frame);
                if let Some(values) = values {
                    self.keep(node, values);
                }
                thread.store(CURRENT, u64::from(id.0));
                node.start(clock.now());
            }
            None => self.lose(call.method),
        }
    }

    /// A call on a thread without a record.
    #[cold]
    pub fn lose_on_thread(&self, method: u32) {
        self.count(LOST_THREADS);
        self.lose_call_of(method);
    }

    /// A call returns, or jumps to another method. Its time ends with the first instruction here.
    #[inline]
    pub fn leave(&self, thread: ThreadRecord<'a>, call: Call, clock: &impl Clock) {
        self.leave_with(thread, call, clock, |_| {});
    }

    /// The same; `result` adds the call's result to its values, if these are kept.
    #[inline]
    pub fn leave_with(
        &self,
        thread: ThreadRecord<'a>,
        call: Call,
        clock: &impl Clock,
        result: impl FnOnce(&mut Values),
    ) {
        let now = clock.now();
        loop {
            let id = thread.current();
            let Some(node) = self.active(id) else { return self.count(UNMATCHED) };
            if node.frame() > call.frame {
                // The entry of this call was lost.
                return self.count(UNMATCHED);
            }
            if node.frame() == call.frame && node.method() == call.method {
                return self.end(thread, (id, node), now, Ending::Returned, result);
            }
            self.end_unwound(thread, (id, node), now);
            self.count(FOUND_LATE);
        }
    }

    /// An object of this type was allocated by the innermost active call. `frame`: the stack pointer in the allocation.
    pub fn allocate(&self, thread: ThreadRecord<'a>, ty: u32, bytes: u64, frame: u64, clock: &impl Clock) {
        let current = self.innermost_above(thread, frame, clock);
        match self.child(current, ty) {
            Some((_, node)) => node.add_object(bytes),
            None => self.lose_object(bytes),
        }
    }

    /// An object that is counted in no tree.
    #[cold]
    pub fn lose_object(&self, bytes: u64) {
        self.count(LOST_OBJECTS);
        self.take(LOST_BYTES, bytes);
    }

    /// An exception begins to unwind a call of `method`; `None` for a method without hooks.
    pub fn unwind_begins(&self, thread: ThreadRecord<'a>, method: Option<u32>, clock: &impl Clock) {
        let depth = (thread.load(UNWINDS) as u16).wrapping_add(1).max(1);
        thread.store(UNWINDS, u64::from(depth));
        let Some(method) = method else { return };
        self.end_unwound_below(thread, method, clock);
        if let Some(node) = self.active(thread.current())
            && node.method() == method
        {
            node.mark(depth);
        }
    }

    /// The call of `method` is the innermost one. A call inside it that was being unwound is gone. (.NET 9 and 10 do not report the end of the
    /// last unwind before native code: experiment with an exception that leaves a method called by reflection.)
    fn end_unwound_below(&self, thread: ThreadRecord<'a>, method: u32, clock: &impl Clock) {
        for _ in 0..MOST_UNREPORTED {
            let id = thread.current();
            let Some(node) = self.active(id).filter(|node| node.method() != method && node.marked() != 0) else {
                return;
            };
            if self.active(node.parent()).is_none() {
                return;
            }
            self.end_unwound(thread, (id, node), clock.now());
        }
    }

    /// The call has been unwound.
    pub fn unwind_ends(&self, thread: ThreadRecord<'a>, clock: &impl Clock) {
        let depth = thread.load(UNWINDS) as u16;
        thread.store(UNWINDS, u64::from(depth.wrapping_sub(1)));
        let id = thread.current();
        if let Some(node) = self.active(id)
            && node.marked() == depth
            && depth != 0
        {
            self.end_unwound(thread, (id, node), clock.now());
        }
    }

    /// The call that is being unwound has a handler for the exception: it goes on.
    pub fn unwind_is_caught(&self, thread: ThreadRecord<'a>) {
        let depth = thread.load(UNWINDS) as u16;
        thread.store(UNWINDS, u64::from(depth.wrapping_sub(1)));
        if let Some(node) = self.active(thread.current())
            && node.marked() == depth
        {
            node.mark(0);
        }
    }

    /// The node of the innermost call that is still active when one with this frame begins. Calls whose frames are gone were unwound.
    #[inline]
    fn innermost_above(&self, thread: ThreadRecord<'a>, frame: u64, clock: &impl Clock) -> NodeId {
        loop {
            let id = thread.current();
            match self.active(id) {
                Some(node) if node.frame() <= frame => {
                    self.end_unwound(thread, (id, node), clock.now());
                    self.count(FOUND_LATE);
                }
                _ => return id,
            }
        }
    }

    /// A node that is no root.
    #[inline]
    fn active(&self, id: NodeId) -> Option<Node<'a>> {
        self.node(id).filter(|node| node.parent() != NodeId(0))
    }

    fn end_unwound(&self, thread: ThreadRecord<'a>, ended: (NodeId, Node<'a>), now: u64) {
        self.end(thread, ended, now, Ending::Unwound, |_| {});
    }

    #[inline]
    fn end(
        &self,
        thread: ThreadRecord<'a>,
        (id, node): (NodeId, Node<'a>),
        now: u64,
        ending: Ending,
        result: impl FnOnce(&mut Values),
    ) {
        let (start, ticks) = node.end(now);
        let parent = node.parent();
        if let Some(parent) = self.node(parent) {
            parent.add_child_ticks(ticks);
        }
        thread.store(CURRENT, u64::from(parent.0));
        let threw = ending == Ending::Unwound;
        if threw {
            node.add_exception();
        }
        if ticks >= self.header(LONG_TICKS) {
            let values = if self.header(HAS_VALUES) == 0 { ValuesPlace::default() } else { self.kept(node, result) };
            self.add_long(LongCall { node: id.0, start, ticks, threw, values });
        }
    }

    #[cold]
    fn lose(&self, method: u32) {
        self.count(LOST);
        self.lose_call_of(method);
    }
}
