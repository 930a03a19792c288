//! The heap: objects, what refers to them, and where they lie.
//!
//! An address is never used again, so that a stale ObjectID is recognised. The model itself knows an object by its key, wherever it lies.

use super::calls::{call_all, high, low};
use super::code::ModuleId;
use super::gc_mode::GcMode;
use super::threads::ThreadId;
use super::{Runtime, State};
use crate::mutation;
use crate::schedule;
use corprof::sys;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An ObjectID: good until the next collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub usize);

/// A ClassID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub usize);

/// An object, wherever it lies: no profiler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(pub u64);

/// What is asked of a new object.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Bytes.
    pub size: usize,
    /// What it refers to.
    pub references: Vec<ObjectKey>,
    /// Whether it is told when nobody refers to it any more.
    pub finalizable: bool,
}

/// Objects of so many bytes and more are large ones: generation 3, and never moved (source: gcconfig.h, GCLOHThreshold).
pub const LARGE: usize = 85_000;
/// The generation that large objects are said to be of.
pub(super) const LARGE_GENERATION: u8 = 3;
/// Of objects that are of none.
const FROZEN_GENERATION: u8 = u8::MAX;
const FIRST_OBJECT: usize = 0x1_0000_0000;
/// Between objects.
const ALIGNMENT: usize = 8;
/// Of objects that are never collected, and the bytes that are kept for those (source: frozenobjectheap.h, FOH_SEGMENT_DEFAULT_SIZE).
const FIRST_FROZEN: usize = 0xF000_0000;
const FROZEN_RESERVED: usize = 4 << 20;
const FIRST_CLASS: usize = 0x3000_0000;
const FIRST_HANDLE: usize = 0x6000_0000;
/// Where objects lie, as far as memory is given to them.
pub(super) const PLACES: [(usize, usize); 2] = [(FIRST_FROZEN, FROZEN_RESERVED), (FIRST_OBJECT, 256 << 20)];
/// Of the tokens that classes have: mdtTypeDef.
const TYPE_DEFINITION: u32 = 0x0200_0000;
/// The rows that every module has before those of its own classes (`objects.rs`).
const ROWS_BEFORE: u32 = 2;

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) class: ClassId,
    pub(super) size: usize,
    pub(super) references: Vec<ObjectKey>,
    pub(super) generation: u8,
    pub(super) address: usize,
    pub(super) finalizable: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Class {
    pub(super) module: Option<ModuleId>,
    pub(super) token: u32,
    pub(super) parent: Option<ClassId>,
    /// Of what it is an array.
    pub(super) element: Option<ClassId>,
}

/// A static field: the object, and the memory in which the runtime keeps its address.
#[derive(Debug, Default)]
pub(super) struct Static {
    pub(super) object: Option<ObjectKey>,
    pub(super) place: Box<AtomicUsize>,
}

/// COR_PRF_HANDLE_TYPE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandleKind {
    Weak,
    Strong,
    Pinned,
}

#[derive(Debug, Default)]
pub(super) struct Heap {
    pub(super) objects: BTreeMap<ObjectKey, Object>,
    pub(super) at: BTreeMap<usize, ObjectKey>,
    pub(super) classes: BTreeMap<ClassId, Class>,
    pub(super) handles: BTreeMap<usize, (ObjectKey, HandleKind)>,
    pub(super) statics: BTreeMap<(ClassId, u32), Static>,
    /// The second of each pair lives as long as the first: elements of a ConditionalWeakTable.
    pub(super) dependent: Vec<(usize, ObjectKey, ObjectKey)>,
    /// What each thread's stack holds.
    pub(super) locals: BTreeMap<ThreadId, Vec<ObjectKey>>,
    /// Objects that wait for the finalizer.
    pub(super) to_finalize: Vec<ObjectKey>,
    /// Born since the last collection.
    pub(super) allocated: BTreeMap<ClassId, u32>,
    /// How many objects were counted so far because somebody wanted to know.
    pub(super) counted: u64,
    pub(super) gc: super::gc_mode::Settings,
    /// Objects that are never collected and never move, by their addresses: the non-GC heap.
    pub(super) frozen: BTreeMap<usize, Object>,
    frozen_used: usize,
    made: usize,
    used: usize,
}

fn empty(generation: i32, place: usize) -> sys::COR_PRF_GC_GENERATION_RANGE {
    sys::COR_PRF_GC_GENERATION_RANGE { generation, rangeStart: place, rangeLength: 0, rangeLengthReserved: 0 }
}

impl Object {
    /// Where it lies and of which generation it is, as a range of its own.
    pub(super) fn own_range(&self) -> sys::COR_PRF_GC_GENERATION_RANGE {
        let length = self.size.next_multiple_of(ALIGNMENT);
        sys::COR_PRF_GC_GENERATION_RANGE {
            generation: i32::from(self.generation),
            rangeStart: self.address,
            rangeLength: length,
            rangeLengthReserved: length,
        }
    }
}

impl Heap {
    /// An empty one, and how it is to be collected.
    pub(super) fn collected(mode: GcMode) -> Heap {
        let mut heap = Heap::default();
        heap.gc.mode = mode;
        heap
    }

    fn next(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// Memory that nothing has ever lain in.
    pub(super) fn place(&mut self, size: usize) -> usize {
        let address = FIRST_OBJECT + self.used;
        self.used += size.next_multiple_of(ALIGNMENT);
        address
    }

    /// The object at an address, if one lies there now.
    pub(super) fn object_at(&self, object: ObjectId) -> Option<&Object> {
        let key = self.at.get(&object.0);
        key.and_then(|key| self.objects.get(key)).or_else(|| self.frozen.get(&object.0))
    }

    /// Whether it is one of those that are never collected.
    pub(super) fn is_frozen(&self, object: &Object) -> bool {
        self.frozen.contains_key(&object.address)
    }

    /// Where those lie, if there are any: in one piece, which has room for more.
    pub(super) fn frozen_range(&self) -> Option<sys::COR_PRF_NONGC_HEAP_RANGE> {
        (!self.frozen.is_empty()).then_some(sys::COR_PRF_NONGC_HEAP_RANGE {
            rangeStart: FIRST_FROZEN,
            rangeLength: self.frozen_used,
            rangeLengthReserved: FROZEN_RESERVED,
        })
    }

    /// Where each generation lies: objects of one that lie one behind the other are one range, which can be walked from object to object.
    /// A generation with nothing in it has a range without length.
    pub(super) fn ranges(&self, has_pinned: bool) -> Vec<sys::COR_PRF_GC_GENERATION_RANGE> {
        let mut ranges: Vec<sys::COR_PRF_GC_GENERATION_RANGE> = Vec::new();
        for own in self.at.values().filter_map(|key| self.objects.get(key)).map(Object::own_range) {
            match ranges.last_mut() {
                Some(last)
                    if last.generation == own.generation && last.rangeStart + last.rangeLength == own.rangeStart =>
                {
                    last.rangeLength += own.rangeLength;
                    last.rangeLengthReserved += own.rangeLength;
                }
                _ => ranges.push(own),
            }
        }
        for generation in 0..=LARGE_GENERATION + u8::from(has_pinned) {
            let generation = i32::from(generation);
            if !ranges.iter().any(|range| range.generation == generation) {
                ranges.push(empty(generation, FIRST_OBJECT + self.used));
            }
        }
        ranges
    }

    pub(super) fn id_of(&self, key: ObjectKey) -> Option<usize> {
        self.objects.get(&key).map(|object| object.address)
    }

    pub(super) fn free(&mut self, key: ObjectKey) {
        if let Some(gone) = self.objects.remove(&key) {
            self.at.remove(&gone.address);
        }
    }

    pub(super) fn thread_ends(&mut self, thread: ThreadId) {
        self.locals.remove(&thread);
    }

    /// Its classes mean nothing any more. No object of them may be left.
    pub(super) fn module_unloads(&mut self, module: ModuleId) {
        self.classes.retain(|_, class| class.module != Some(module));
        let classes = &self.classes;
        self.statics.retain(|(class, _), _| classes.contains_key(class));
    }

    /// Writes the addresses that statics hold anew.
    pub(super) fn update_statics(&mut self) {
        if mutation::is("GCH-06/2") && self.gc.count > 0 {
            return;
        }
        let objects = &self.objects;
        for field in self.statics.values_mut() {
            let address = field.object.and_then(|key| objects.get(&key)).map_or(0, |object| object.address);
            field.place.store(address, Ordering::SeqCst);
        }
    }
}

impl Runtime {
    /// A class is loaded, with its parent; without a module it is one of the runtime's own.
    pub fn define_class(&self, module: Option<ModuleId>, parent: Option<ClassId>) -> ClassId {
        self.add_class(module, parent, None)
    }

    /// The class of arrays of a class.
    pub fn define_array(&self, element: ClassId) -> ClassId {
        self.add_class(None, None, Some(element))
    }

    fn add_class(&self, module: Option<ModuleId>, parent: Option<ClassId>, element: Option<ClassId>) -> ClassId {
        let mut state = self.lock();
        let serial = state.heap.next();
        let id = ClassId(FIRST_CLASS + serial * 0x10);
        let token = TYPE_DEFINITION | (ROWS_BEFORE + serial as u32);
        state.heap.classes.insert(id, Class { module, token, parent, element });
        id
    }

    /// An object is born on the running thread, whose stack holds it.
    pub fn allocate(&self, class: ClassId, shape: Shape) -> ObjectKey {
        let thread = self.this_thread();
        let (key, address, is_large) = self.cooperatively(|state| {
            let heap = &mut state.heap;
            let key = ObjectKey(heap.next() as u64);
            let address = heap.place(shape.size);
            let is_large = shape.size >= LARGE;
            let generation = if is_large { LARGE_GENERATION } else { 0 };
            let Shape { size, references, finalizable } = shape;
            heap.objects.insert(key, Object { class, size, references, generation, address, finalizable });
            heap.at.insert(address, key);
            *heap.allocated.entry(class).or_default() += 1;
            if let Some(thread) = thread {
                heap.locals.entry(thread).or_default().push(key);
            }
            (key, address, is_large)
        });
        let every = low(sys::COR_PRF_MONITOR_OBJECT_ALLOCATED | sys::COR_PRF_ENABLE_OBJECT_ALLOCATED);
        let large = high(sys::COR_PRF_HIGH_MONITOR_LARGEOBJECT_ALLOCATED);
        let is_told = is_large || mutation::is("ATT-14");
        let wanted = |mask: (u32, u32)| every(mask) || is_told && large(mask);
        call_all!(self, wanted, object_allocated(address, class.0));
        key
    }

    /// An object that is never collected and never moves, as literal strings are since .NET 8. Nobody is told of its config.
    pub fn allocate_frozen(&self, class: ClassId, size: usize) -> ObjectId {
        let heap = &mut self.lock().heap;
        let address = FIRST_FROZEN + heap.frozen_used;
        heap.frozen_used += size.next_multiple_of(ALIGNMENT);
        let (references, generation) = (Vec::new(), FROZEN_GENERATION);
        let object = Object { class, size, references, generation, address, finalizable: false };
        heap.frozen.insert(address, object);
        ObjectId(address)
    }

    /// The stack of the running thread holds an object no longer.
    pub fn forget(&self, object: ObjectKey) {
        let Some(thread) = self.this_thread() else { return };
        self.cooperatively(|state| {
            state.heap.locals.entry(thread).or_default().retain(|held| *held != object);
        });
    }

    /// One object refers to another from now on.
    pub fn refer(&self, from: ObjectKey, to: ObjectKey) {
        self.cooperatively(|state| {
            if let Some(object) = state.heap.objects.get_mut(&from) {
                object.references.push(to);
            }
        });
    }

    /// It refers to nothing any more.
    pub fn refer_to_nothing(&self, from: ObjectKey) {
        self.cooperatively(|state| {
            if let Some(object) = state.heap.objects.get_mut(&from) {
                object.references.clear();
            }
        });
    }

    /// A static field holds an object, or none.
    pub fn set_static(&self, class: ClassId, field: u32, object: Option<ObjectKey>) {
        self.cooperatively(|state| {
            state.heap.statics.entry((class, field)).or_default().object = object;
            state.heap.update_statics();
        });
    }

    /// The program makes a handle.
    pub fn make_handle(&self, object: ObjectKey, pinned: bool) -> usize {
        let kind = if pinned { HandleKind::Pinned } else { HandleKind::Strong };
        let (handle, id) = self.cooperatively(|state| {
            let id = state.heap.id_of(object).unwrap_or_default();
            (state.heap.add_handle(object, kind), id)
        });
        call_all!(self, monitors_gc, handle_created(handle, id));
        handle
    }

    /// The program gives a handle back.
    pub fn free_handle(&self, handle: usize) {
        self.cooperatively(|state| state.heap.handles.remove(&handle));
        call_all!(self, monitors_gc, handle_destroyed(handle));
    }

    /// From now on one object keeps another alive without referring to it: an element of a ConditionalWeakTable.
    pub fn depend(&self, key: ObjectKey, value: ObjectKey) {
        self.cooperatively(|state| {
            let handle = FIRST_HANDLE + state.heap.next() * 8;
            state.heap.dependent.push((handle, key, value));
        });
    }

    /// Where an object lies now, if it lives.
    pub fn object(&self, key: ObjectKey) -> Option<ObjectId> {
        self.lock().heap.id_of(key).map(ObjectId)
    }

    /// How many objects profilers were told of as made since the collection before: each was looked up among all classes for that.
    pub fn counted(&self) -> u64 {
        self.lock().heap.counted
    }

    /// In which generation each object is: 0 when it is made, one more for each collection that it has survived, up to 2.
    pub fn generations(&self) -> Vec<u8> {
        self.lock().heap.objects.values().map(|object| object.generation).collect()
    }

    /// Every object: where it lies, its class, its size and what it refers to.
    pub fn objects(&self) -> Vec<(ObjectId, ClassId, usize, Vec<ObjectId>)> {
        let state = self.lock();
        let ids = |keys: &[ObjectKey]| keys.iter().filter_map(|key| state.heap.id_of(*key)).map(ObjectId).collect();
        let facts = |object: &Object| (ObjectId(object.address), object.class, object.size, ids(&object.references));
        state.heap.objects.values().map(facts).collect()
    }

    /// What managed code does to the heap: never while the managed threads are suspended.
    pub(super) fn cooperatively<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.safepoint();
        loop {
            let mut state = self.lock();
            let is_free = state.suspended_by.is_none_or(|by| by == schedule::current());
            if is_free || schedule::is_stopped() {
                return change(&mut state);
            }
            drop(state);
            schedule::wait_until(None, || self.lock().suspended_by.is_none());
        }
    }
}

impl Heap {
    pub(super) fn add_handle(&mut self, object: ObjectKey, kind: HandleKind) -> usize {
        let handle = FIRST_HANDLE + self.next() * 8;
        self.handles.insert(handle, (object, kind));
        handle
    }
}

pub(super) fn monitors_gc(mask: (u32, u32)) -> bool {
    mask.0 & sys::COR_PRF_MONITOR_GC != 0
}
