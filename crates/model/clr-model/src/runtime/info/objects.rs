//! Calls about one object, and handles.

use super::{Answer, INSUFFICIENT_BUFFER, Server, answered, args, invalid_if, named, refuse_if, stale};
use crate::runtime::ObjectId;
use crate::runtime::heap::Object;
use corprof::{HResult, sys};

/// Bytes before an array's first element, and of each element. Elements are addresses, since the model has only arrays of classes.
const HEAD_OF_ARRAY: usize = 16;
const ELEMENT: usize = 8;

impl Server {
    /// Looks up an object while it cannot move: in a GC, or in a callback that runs in cooperative mode.
    fn inspected<T>(&self, object: usize, what: &str, look: impl Fn(&Object) -> T) -> Result<T, HResult> {
        named(object)?;
        let (runtime, profiler) = self.both()?;
        runtime.may_inspect(&profiler)?;
        self.about_object(object, what, |_, object| look(object))
    }

    pub(super) unsafe fn get_class_from_object(&self, args: args::GetClassFromObject) -> Answer {
        answered! { args.pClassId => self.inspected(args.objectId, "GetClassFromObject", |object| object.class.0)? }
    }

    pub(super) unsafe fn get_object_size(&self, args: args::GetObjectSize) -> Answer {
        answered! { args.pcSize => self.inspected(args.objectId, "GetObjectSize", |object| object.size as u32)? }
    }

    pub(super) unsafe fn get_object_size2(&self, args: args::GetObjectSize2) -> Answer {
        answered! { args.pcSize => self.inspected(args.objectId, "GetObjectSize2", |object| object.size)? }
    }

    /// An array of the model has one dimension with lower bound 0; its bytes determine its length.
    pub(super) unsafe fn get_array_object_info(&self, args: args::GetArrayObjectInfo) -> Answer {
        invalid_if(args.pDimensionSizes.is_null() || args.pDimensionLowerBounds.is_null() || args.ppData.is_null())?;
        let facts = |object: &Object| (object.class, object.size);
        let (class, size) = self.inspected(args.objectId, "GetArrayObjectInfo", facts)?;
        let runtime = self.runtime()?;
        let is_array = runtime.lock().heap.classes.get(&class).is_some_and(|class| class.element.is_some());
        invalid_if(!is_array)?;
        refuse_if(args.cDimensions < 1, INSUFFICIENT_BUFFER)?;
        answered! {
            args.pDimensionSizes => (size.saturating_sub(HEAD_OF_ARRAY) / ELEMENT) as u32,
            args.pDimensionLowerBounds => 0,
            args.ppData => (args.objectId + HEAD_OF_ARRAY) as *mut u8,
        }
    }

    pub(super) unsafe fn is_frozen_object(&self, args: args::IsFrozenObject) -> Answer {
        let is_frozen =
            self.about_object(args.objectId, "IsFrozenObject", |state, object| state.heap.is_frozen(object))?;
        answered! { args.pbFrozen => sys::BOOL::from(is_frozen) }
    }

    /// An object without references gets another code. (The runtime decides this by the class.)
    pub(super) unsafe fn enumerate_object_references(&self, args: args::EnumerateObjectReferences) -> Answer {
        let callback = args.callback.ok_or(HResult::E_INVALIDARG)?;
        let references = self.references_of(args.objectId)?;
        let code = if references.is_empty() { HResult::S_FALSE } else { HResult::S_OK };
        for mut reference in references {
            // SAFETY: the profiler passed this function to be called with this data; the place is a local.
            if unsafe { callback(args.objectId, &raw mut reference, args.clientData) } == 0 {
                break;
            }
        }
        Ok(code)
    }

    /// A handle is a number as a pointer.
    pub(super) unsafe fn create_handle(&self, args: args::CreateHandle) -> Answer {
        invalid_if(args.object == 0 || args.pHandle.is_null())?;
        let (runtime, profiler) = self.both()?;
        let handle = runtime.create_handle(&profiler, ObjectId(args.object), args.r#type)?;
        answered! { args.pHandle => handle as sys::ObjectHandleID }
    }

    pub(super) unsafe fn destroy_handle(&self, args: args::DestroyHandle) -> Answer {
        self.with_both(|runtime, profiler| runtime.destroy_handle(profiler, args.handle as usize))
    }

    /// The handle of a collected object has no object, which is no failure (documented, ICorProfilerInfo13::GetObjectIDFromHandle).
    pub(super) unsafe fn get_object_id_from_handle(&self, args: args::GetObjectIDFromHandle) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.handle.is_null() || args.pObject.is_null())?;
        let object = {
            let state = runtime.lock();
            let held = state.heap.handles.get(&(args.handle as usize));
            held.map(|(key, _)| state.heap.id_of(*key).unwrap_or_default())
        };
        answered! { args.pObject => object.ok_or_else(|| stale(&runtime, "handle", "GetObjectIDFromHandle"))? }
    }
}
