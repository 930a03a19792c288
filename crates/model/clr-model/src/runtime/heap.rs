//! The heap: objects, their references, and their addresses.
//!
//! Addresses are never reused, so a stale ObjectID is recognised. The model itself identifies an object by its key, whatever its address.

use super::calls::{call_all, high, low};
use super::code::ModuleId;
use super::gc_mode::GcMode;
use super::threads::ThreadId;
use super::{Runtime, State};
use crate::mutation;
pub use corprof::{ClassId, ObjectId};
use corprof::{HResult, sys};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An object, whatever its address. Profilers never see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(pub u64);

/// The properties of a new object.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Bytes.
    pub size: usize,
    /// The objects that it references.
    pub references: Vec<ObjectKey>,
    /// Whether it has a finalizer.
    pub finalizable: bool,
    /// Whether it is made on the pinned object heap, if there is one.
    pub pinned: bool,
}

/// Minimum bytes of a large object: generation 3, never moved (source: gcconfig.h, GCLOHThreshold).
pub const LARGE: usize = 85_000;
/// The reported generation of large objects.
pub(super) const LARGE_GENERATION: u8 = 3;
/// The reported generation of objects on the pinned object heap, which never move either (source: gcinterface.h; since .NET 5).
const PINNED_GENERATION: u8 = LARGE_GENERATION + 1;
/// For objects without a generation.
const FROZEN_GENERATION: u8 = u8::MAX;
const FIRST_OBJECT: usize = 0x1_0000_0000;
const ALIGNMENT: usize = 8;
/// The frozen heap: first address and reserved bytes (source: frozenobjectheap.h, FOH_SEGMENT_DEFAULT_SIZE).
const FIRST_FROZEN: usize = 0xF000_0000;
const FROZEN_RESERVED: usize = 4 << 20;
const FIRST_CLASS: usize = 0x3000_0000;
const FIRST_HANDLE: usize = 0x6000_0000;
/// Where objects lie, as far as they have memory.
pub(super) const PLACES: [(usize, usize); 2] = [(FIRST_FROZEN, FROZEN_RESERVED), (FIRST_OBJECT, 256 << 20)];
/// The token kind of classes: mdtTypeDef.
const TYPE_DEFINITION: u32 = 0x0200_0000;
/// Rows of a module without contents before those of its own classes (`objects.rs`).
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
    /// The element class of an array.
    pub(super) element: Option<ClassId>,
}

/// A static field: the object, and the memory with its address.
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
    /// Pairs in which the first keeps the second alive: elements of a ConditionalWeakTable.
    pub(super) dependent: Vec<(usize, ObjectKey, ObjectKey)>,
    /// The objects on each thread's stack.
    pub(super) locals: BTreeMap<ThreadId, Vec<ObjectKey>>,
    /// Objects that wait for the finalizer.
    pub(super) to_finalize: Vec<ObjectKey>,
    /// Objects allocated since the last GC.
    pub(super) allocated: BTreeMap<ClassId, u32>,
    /// Allocated objects that were counted for a profiler.
    pub(super) counted: u64,
    pub(super) gc: super::gc_mode::Settings,
    /// Objects that are never collected and never move, by address: the non-GC heap.
    pub(super) frozen: BTreeMap<usize, Object>,
    frozen_used: usize,
    /// See [`Runtime::framework_class`].
    pub(super) of_framework: Option<ClassId>,
    made: usize,
    used: usize,
}

fn range(generation: u8, start: usize, length: usize) -> sys::COR_PRF_GC_GENERATION_RANGE {
    let generation = i32::from(generation);
    sys::COR_PRF_GC_GENERATION_RANGE { generation, rangeStart: start, rangeLength: length, rangeLengthReserved: length }
}

impl Object {
    /// Its address and generation, as a range of its own.
    pub(super) fn own_range(&self) -> sys::COR_PRF_GC_GENERATION_RANGE {
        range(self.generation, self.address, self.size.next_multiple_of(ALIGNMENT))
    }
}

impl Heap {
    /// An empty heap with this GC mode.
    pub(super) fn collected(mode: GcMode) -> Heap {
        let mut heap = Heap::default();
        heap.gc.mode = mode;
        heap
    }

    fn next(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// Gives a class its id.
    pub(super) fn insert_class(&mut self, class: Class) -> ClassId {
        let id = ClassId(FIRST_CLASS + self.next() * 0x10);
        self.classes.insert(id, class);
        id
    }

    /// Memory that was never used before.
    pub(super) fn place(&mut self, size: usize) -> usize {
        let address = FIRST_OBJECT + self.used;
        self.used += size.next_multiple_of(ALIGNMENT);
        address
    }

    /// The object at an address, if one is there.
    pub(super) fn object_at(&self, object: ObjectId) -> Option<&Object> {
        let key = self.at.get(&object.0);
        key.and_then(|key| self.objects.get(key)).or_else(|| self.frozen.get(&object.0))
    }

    /// Whether it is frozen.
    pub(super) fn is_frozen(&self, object: &Object) -> bool {
        self.frozen.contains_key(&object.address)
    }

    /// The range of the frozen objects, if there are any: one range, with room for more.
    pub(super) fn frozen_range(&self) -> Option<sys::COR_PRF_NONGC_HEAP_RANGE> {
        (!self.frozen.is_empty()).then_some(sys::COR_PRF_NONGC_HEAP_RANGE {
            rangeStart: FIRST_FROZEN,
            rangeLength: self.frozen_used,
            rangeLengthReserved: FROZEN_RESERVED,
        })
    }

    /// The ranges of each generation. Adjacent objects of a generation form one range, which can be walked from object to object. An empty
    /// generation has a range without length.
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
            if !ranges.iter().any(|range| range.generation == i32::from(generation)) {
                ranges.push(range(generation, FIRST_OBJECT + self.used, 0));
            }
        }
        ranges
    }

    /// The range with an address, of the last reported GC or, with `is_of_gc`, of now. Addresses that no range has are of the youngest
    /// generation.
    pub(super) fn generation_at(
        &self,
        address: usize,
        is_of_gc: bool,
    ) -> Result<sys::COR_PRF_GC_GENERATION_RANGE, HResult> {
        let whole = FIRST_OBJECT..FIRST_OBJECT + self.used;
        let is_known = whole.contains(&address)
            && (!mutation::is("CAT-09/4") || self.gc.bounds.is_none() || self.at.contains_key(&address));
        if !is_known {
            return Err(if is_of_gc { HResult::CORPROF_E_NOT_GC_OBJECT } else { HResult::E_FAIL });
        }
        let bounds = self.gc.bounds.as_deref();
        let bounds = if is_of_gc { bounds.unwrap_or_default() } else { bounds.ok_or(HResult::E_FAIL)? };
        let holds = |one: &&sys::COR_PRF_GC_GENERATION_RANGE| {
            (one.rangeStart..one.rangeStart + one.rangeLengthReserved).contains(&address)
        };
        let own = || self.object_at(ObjectId(address)).map(Object::own_range);
        Ok(bounds.iter().find(holds).copied().or_else(own).unwrap_or_else(|| range(0, whole.start, self.used)))
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

    /// Removes the module's classes. No object of them may remain.
    pub(super) fn module_unloads(&mut self, module: ModuleId) {
        self.classes.retain(|_, class| class.module != Some(module));
        let classes = &self.classes;
        self.statics.retain(|(class, _), _| classes.contains_key(class));
    }

    /// Updates the addresses in statics.
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
    /// Loads a class with its parent. Without a module it is one of the runtime's own.
    pub fn define_class(&self, module: Option<ModuleId>, parent: Option<ClassId>) -> ClassId {
        self.add_class(module, parent, None)
    }

    /// The class of arrays of a class.
    pub fn define_array(&self, element: ClassId) -> ClassId {
        self.add_class(None, None, Some(element))
    }

    fn add_class(&self, module: Option<ModuleId>, parent: Option<ClassId>, element: Option<ClassId>) -> ClassId {
        let id = {
            let mut state = self.lock();
            let serial = state.heap.made as u32 + 1;
            let row = match module.and_then(|module| state.code.modules.get_mut(&module)) {
                Some(known) => {
                    known.defined += 1;
                    known.contents.as_ref().map_or(ROWS_BEFORE, |contents| contents.count_of_types()) + known.defined
                }
                None => ROWS_BEFORE + serial,
            };
            let token = TYPE_DEFINITION | row;
            state.heap.insert_class(Class { module, token, parent, element })
        };
        self.tell_class_loads(id);
        id
    }

    /// Allocates an object on the running thread, whose stack references it.
    pub fn allocate(&self, class: ClassId, shape: Shape) -> ObjectKey {
        self.safepoint();
        self.in_cooperative_mode(|| {
            let (key, address, is_large) = self.add_object(class, shape);
            let every = low(sys::COR_PRF_MONITOR_OBJECT_ALLOCATED | sys::COR_PRF_ENABLE_OBJECT_ALLOCATED);
            let large = high(sys::COR_PRF_HIGH_MONITOR_LARGEOBJECT_ALLOCATED);
            let is_reported = is_large || mutation::is("ATT-14");
            let wanted = |mask: (u32, u32)| every(mask) || is_reported && large(mask);
            call_all!(self, wanted, object_allocated(address, class.0));
            key
        })
    }

    /// Returns its address, too, and whether it is a large object.
    fn add_object(&self, class: ClassId, shape: Shape) -> (ObjectKey, usize, bool) {
        let thread = self.this_thread();
        let is_pinned = shape.pinned && self.has_pinned_heap() && !mutation::is("GCH-02/6");
        let state = &mut *self.lock();
        let heap = &mut state.heap;
        let key = ObjectKey(heap.next() as u64);
        let address = heap.place(shape.size);
        let is_large = shape.size >= LARGE;
        let generation = match is_large {
            _ if is_pinned => PINNED_GENERATION,
            true => LARGE_GENERATION,
            false => 0,
        };
        let Shape { size, references, finalizable, .. } = shape;
        heap.objects.insert(key, Object { class, size, references, generation, address, finalizable });
        heap.at.insert(address, key);
        *heap.allocated.entry(class).or_default() += 1;
        if let Some(thread) = thread {
            heap.locals.entry(thread).or_default().push(key);
        }
        (key, address, is_large)
    }

    /// Allocates an object that is never collected and never moves, like literal strings since .NET 8. No callback reports it.
    pub fn allocate_frozen(&self, class: ClassId, size: usize) -> ObjectId {
        let heap = &mut self.lock().heap;
        let address = FIRST_FROZEN + heap.frozen_used;
        heap.frozen_used += size.next_multiple_of(ALIGNMENT);
        let (references, generation) = (Vec::new(), FROZEN_GENERATION);
        let object = Object { class, size, references, generation, address, finalizable: false };
        heap.frozen.insert(address, object);
        ObjectId(address)
    }

    /// The running thread's stack drops its reference to an object.
    pub fn forget(&self, object: ObjectKey) {
        let Some(thread) = self.this_thread() else { return };
        self.cooperatively(|state| {
            state.heap.locals.entry(thread).or_default().retain(|held| *held != object);
        });
    }

    /// Adds a reference from one object to another.
    pub fn refer(&self, from: ObjectKey, to: ObjectKey) {
        self.cooperatively(|state| {
            if let Some(object) = state.heap.objects.get_mut(&from) {
                object.references.push(to);
            }
        });
    }

    /// Sets a static field to an object, or to null.
    pub fn set_static(&self, class: ClassId, field: u32, object: Option<ObjectKey>) {
        self.cooperatively(|state| {
            state.heap.statics.entry((class, field)).or_default().object = object;
            state.heap.update_statics();
        });
    }

    /// The program makes a handle.
    pub fn make_handle(&self, object: ObjectKey, pinned: bool) -> usize {
        let kind = if pinned { HandleKind::Pinned } else { HandleKind::Strong };
        self.safepoint();
        self.in_cooperative_mode(|| {
            let (handle, id) = {
                let heap = &mut self.lock().heap;
                (heap.add_handle(object, kind), heap.id_of(object).unwrap_or_default())
            };
            call_all!(self, monitors_gc, handle_created(handle, id));
            handle
        })
    }

    /// The program frees a handle.
    pub fn free_handle(&self, handle: usize) {
        self.cooperatively(|state| state.heap.handles.remove(&handle));
        call_all!(self, monitors_gc, handle_destroyed(handle));
    }

    /// From now on one object keeps another alive without referencing it: an element of a ConditionalWeakTable.
    pub fn depend(&self, key: ObjectKey, value: ObjectKey) {
        self.cooperatively(|state| {
            let handle = FIRST_HANDLE + state.heap.next() * 8;
            state.heap.dependent.push((handle, key, value));
        });
    }

    /// The current address of a live object.
    pub fn object(&self, key: ObjectKey) -> Option<ObjectId> {
        self.lock().heap.id_of(key).map(ObjectId)
    }

    /// Objects reported as allocated since the GC before. The runtime looked up each one among all classes.
    pub fn counted(&self) -> u64 {
        self.lock().heap.counted
    }

    /// The generation of each object: 0 at first, one more after each GC that it survives, up to 2.
    pub fn generations(&self) -> Vec<u8> {
        self.lock().heap.objects.values().map(|object| object.generation).collect()
    }

    /// Every object: address, class, size, references.
    pub fn objects(&self) -> Vec<(ObjectId, ClassId, usize, Vec<ObjectId>)> {
        let state = self.lock();
        let ids = |keys: &[ObjectKey]| keys.iter().filter_map(|key| state.heap.id_of(*key)).map(ObjectId).collect();
        let facts = |object: &Object| (ObjectId(object.address), object.class, object.size, ids(&object.references));
        state.heap.objects.values().map(facts).collect()
    }

    /// A change of the heap by managed code, which never runs while managed threads are suspended.
    pub(super) fn cooperatively<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.safepoint();
        change(&mut self.lock_unsuspended())
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
