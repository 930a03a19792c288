//! Ids and tokens of the runtime as distinct types, so that they cannot be mixed up.
//!
//! An id is an address inside the runtime, which does not check it. These types do not catch a stale id.
//! Code that stores ids must drop them in the unload callbacks.

macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident($inner:ty);)*) => {
        $(
            $(#[$meta])*
            #[repr(transparent)]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
            pub struct $name(pub $inner);
        )*
    };
}

ids! {
    /// An application domain; Core has one.
    AppDomainId(usize);
    /// A loaded assembly.
    AssemblyId(usize);
    /// A loaded class, with its type arguments.
    ClassId(usize);
    /// A method with its type arguments, the same for all versions of its code.
    FunctionId(usize);
    /// A GC handle.
    HandleId(usize);
    /// A loaded module.
    ModuleId(usize);
    /// An object's address, valid until the next GC.
    ObjectId(usize);
    /// A version of a method's code, made by ReJIT; zero is the original.
    RejitId(usize);
    /// A managed thread.
    ThreadId(usize);
    /// An EventPipe provider.
    ProviderId(usize);
    /// An EventPipe event that a provider defined.
    EventId(usize);
    /// An EventPipe session.
    SessionId(u64);
    /// Any metadata token.
    Token(u32);
    /// A TypeDef row in a module's metadata.
    TypeToken(u32);
    /// A MethodDef row in a module's metadata.
    MethodToken(u32);
    /// A Field row in a module's metadata: mdFieldDef.
    FieldToken(u32);
}

impl From<TypeToken> for Token {
    fn from(token: TypeToken) -> Token {
        Token(token.0)
    }
}

impl From<MethodToken> for Token {
    fn from(token: MethodToken) -> Token {
        Token(token.0)
    }
}

impl TypeToken {
    /// Whether it names a row at all: row zero means "none".
    pub const fn is_some(self) -> bool {
        self.0 & 0x00FF_FFFF != 0
    }
}
