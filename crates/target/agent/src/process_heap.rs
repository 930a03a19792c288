//! The heap as the runtime reports it: in the forked copy, or in a GC callback of the process.

use corprof::{
    AppDomainId, ClassId, FieldPlace, FieldToken, FrozenRange, GenerationRange, HResult, HeapView, MethodToken,
    ModuleId, ObjectId,
};
use remora_sampler::{FROZEN_RANGE, ForkedCopy, HeapClass, HeapRange, HeapReader, MOST_ARGUMENTS};

/// There is no memory below this address.
const LOWEST: usize = 1 << 16;

/// See the module documentation.
#[derive(Debug, Clone, Copy)]
pub struct ProcessHeap {
    view: HeapView,
    /// The AppDomain whose static fields are read.
    domain: Option<AppDomainId>,
}

/// A [`HeapRange`] has the layout of the runtime's range, field by field; a frozen range is shorter.
const _: () = assert!(size_of::<HeapRange>() == size_of::<GenerationRange>());
const _: () = assert!(size_of::<HeapRange>() >= size_of::<FrozenRange>());
const _: () = assert!(align_of::<HeapRange>() >= align_of::<FrozenRange>());
/// A field's place has two numbers, its token first.
const _: () = assert!(size_of::<FieldPlace>() == size_of::<[u32; 2]>());
const _: () = assert!(align_of::<FieldPlace>() == align_of::<[u32; 2]>());

impl ProcessHeap {
    /// The heap behind `view`, in the copy that `fork` proves.
    pub fn new(_: &ForkedCopy, view: HeapView, domain: Option<AppDomainId>) -> ProcessHeap {
        ProcessHeap { view, domain }
    }

    /// The heap in the process itself.
    ///
    /// # Safety
    /// The caller uses it only inside a GC callback.
    pub unsafe fn in_collection(view: HeapView) -> ProcessHeap {
        ProcessHeap { view, domain: None }
    }

    fn generations(&self, into: &mut [HeapRange]) -> usize {
        // SAFETY: both types have the same size, and fields of the same sizes at the same places. All bytes are valid values of either.
        let ranges = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<GenerationRange>(), into.len()) };
        // SAFETY: `new` proves a copy forked in a callback or suspension, and the caller of `in_collection` stays in a GC callback.
        unsafe { self.view.generation_bounds(ranges) }.unwrap_or(0)
    }

    /// The runtime writes a shorter form than ours, always from the first range on. So it writes into the final place, one right after the
    /// other, and then each is stretched.
    fn frozen(&self, into: &mut [HeapRange]) -> usize {
        let places = into.as_mut_ptr();
        let short = places.cast::<FrozenRange>();
        // SAFETY: the short forms need no more room than the long ones. All bytes are valid values of either.
        let reported = unsafe { std::slice::from_raw_parts_mut(short, into.len()) };
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        let Ok(total) = (unsafe { self.view.frozen_bounds(reported) }) else { return 0 };
        for index in (0..total.min(into.len())).rev() {
            // SAFETY: both indexes are within the list. It goes backwards, so each short form is read before a long one overwrites it.
            unsafe {
                let range = short.add(index).read();
                places.add(index).write(HeapRange {
                    kind: FROZEN_RANGE,
                    start: range.start as u64,
                    length: range.length as u64,
                    reserved: range.reserved as u64,
                });
            }
        }
        total
    }
}

impl HeapReader for ProcessHeap {
    fn ranges(&self, into: &mut [HeapRange]) -> usize {
        let collected = self.generations(into);
        let rest = into.get_mut(collected..).unwrap_or_default();
        collected + self.frozen(rest)
    }

    fn class_of(&self, object: u64) -> Option<u64> {
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        unsafe { self.view.class_of(ObjectId(object as usize)) }.ok().map(|class| class.0 as u64)
    }

    fn size_of(&self, object: u64) -> Option<u64> {
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        unsafe { self.view.size_of(ObjectId(object as usize)) }.ok().map(|size| size as u64)
    }

    fn references(&self, object: u64, visit: &mut dyn FnMut(u64)) {
        // On an error, the object has no references: mostly free space.
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        let _ = unsafe { self.view.references(ObjectId(object as usize), &mut |target| visit(target.0 as u64)) };
    }

    fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
        let class = ClassId(class as usize);
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        if let Ok(Some(array)) = unsafe { self.view.array(class) } {
            return HeapClass::Array { element: array.class.0 as u64, element_kind: array.element, rank: array.rank };
        }
        let mut ids = [ClassId(0); MOST_ARGUMENTS];
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        match unsafe { self.view.class(class, &mut ids) } {
            Ok(head) => {
                arguments.iter_mut().zip(ids).for_each(|(place, id)| *place = id.0 as u64);
                let (module, parent) = (head.module.0 as u64, head.parent.0 as u64);
                HeapClass::Plain { module, token: head.token.0, parent, arguments: head.arguments }
            }
            Err(code) => HeapClass::Unknown(code.0 as u32),
        }
    }

    fn layout(&self, class: u64, fields: &mut [[u32; 2]]) -> Option<(usize, u32)> {
        // SAFETY: both types have the same size, and two numbers in the same order. All bytes are valid values of either.
        let places = unsafe { std::slice::from_raw_parts_mut(fields.as_mut_ptr().cast::<FieldPlace>(), fields.len()) };
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        unsafe { self.view.layout(ClassId(class as usize), places) }.ok()
    }

    fn class_with(&self, module: u64, method: u32) -> Option<u64> {
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        let function = unsafe { self.view.function(ModuleId(module as usize), MethodToken(method)) }.ok()?;
        // SAFETY: `self` exists only in the forked copy or in a GC callback, where the runtime allows this call.
        unsafe { self.view.class_of_function(function) }.ok().map(|class| class.0 as u64)
    }

    fn static_at(&self, class: u64, field: u32) -> Result<u64, u32> {
        let domain = self.domain.ok_or(HResult::E_FAIL.0 as u32)?;
        // SAFETY: only the forked copy has a `domain`. No other thread there waits for this one.
        let address = unsafe { self.view.static_address(ClassId(class as usize), FieldToken(field), domain) };
        match address {
            // The class counts as initialized, but its fields have no place yet. The address is null, or a value in a box that does not
            // exist.
            Ok(address) if address < LOWEST => Err(HResult::CORPROF_E_DATAINCOMPLETE.0 as u32),
            Ok(address) => Ok(address as u64),
            Err(code) => Err(code.0 as u32),
        }
    }
}
