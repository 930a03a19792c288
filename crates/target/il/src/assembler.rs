//! Writes instructions: those that probes need.

use alloc::vec::Vec;

/// Instructions in the order of the calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assembler {
    code: Vec<u8>,
}

/// A branch whose target is set later, by [`Assembler::here`].
#[derive(Debug)]
#[must_use = "the branch has no target yet"]
pub struct Ahead(usize);

impl Assembler {
    /// The code.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Pushes a 32-bit number.
    pub fn ldc_i4(&mut self, number: i32) -> &mut Self {
        self.op(&[0x20]).op(&number.to_le_bytes())
    }

    /// Pushes an address.
    pub fn address(&mut self, address: usize) -> &mut Self {
        // `ldc.i8`, `conv.i`.
        self.op(&[0x21]).op(&(address as u64).to_le_bytes()).op(&[0xD3])
    }

    /// Calls the address on the stack, by the signature of this token.
    pub fn calli(&mut self, signature: u32) -> &mut Self {
        self.op(&[0x29]).op(&signature.to_le_bytes())
    }

    /// Pushes a local.
    pub fn ldloc(&mut self, local: u16) -> &mut Self {
        self.op(&[0xFE, 0x0C]).op(&local.to_le_bytes())
    }

    /// Pops into a local.
    pub fn stloc(&mut self, local: u16) -> &mut Self {
        self.op(&[0xFE, 0x0E]).op(&local.to_le_bytes())
    }

    /// Pushes an argument.
    pub fn ldarg(&mut self, argument: u16) -> &mut Self {
        self.op(&[0xFE, 0x09]).op(&argument.to_le_bytes())
    }

    /// Converts the top to a native integer, an object to its address.
    pub fn conv_i(&mut self) -> &mut Self {
        self.op(&[0xD3])
    }

    /// Extends the signed top to 64 bits.
    pub fn conv_i8(&mut self) -> &mut Self {
        self.op(&[0x6A])
    }

    /// Extends the unsigned top to 64 bits.
    pub fn conv_u8(&mut self) -> &mut Self {
        self.op(&[0x6E])
    }

    /// Converts the top to a 64-bit floating-point number.
    pub fn conv_r8(&mut self) -> &mut Self {
        self.op(&[0x6C])
    }

    /// Pushes null.
    pub fn ldnull(&mut self) -> &mut Self {
        self.op(&[0x14])
    }

    /// Duplicates the top.
    pub fn dup(&mut self) -> &mut Self {
        self.op(&[0x25])
    }

    /// Removes the top.
    pub fn pop(&mut self) -> &mut Self {
        self.op(&[0x26])
    }

    /// Pushes the address of a local.
    pub fn ldloca(&mut self, local: u16) -> &mut Self {
        self.op(&[0xFE, 0x0D]).op(&local.to_le_bytes())
    }

    /// Replaces an object by a field of it.
    pub fn ldfld(&mut self, field: u32) -> &mut Self {
        self.op(&[0x7B]).op(&field.to_le_bytes())
    }

    /// Replaces an object by the address of a field of it.
    pub fn ldflda(&mut self, field: u32) -> &mut Self {
        self.op(&[0x7C]).op(&field.to_le_bytes())
    }

    /// Calls a method.
    pub fn call(&mut self, method: u32) -> &mut Self {
        self.op(&[0x28]).op(&method.to_le_bytes())
    }

    /// Pops, and branches if that was 0.
    pub fn brfalse(&mut self) -> Ahead {
        self.branch(0x39)
    }

    /// Pops, and branches if that was not 0.
    pub fn brtrue(&mut self) -> Ahead {
        self.branch(0x3A)
    }

    /// Pops two numbers, and branches if the lower one is less than the top one, both signed.
    pub fn blt(&mut self) -> Ahead {
        self.branch(0x3F)
    }

    fn branch(&mut self, opcode: u8) -> Ahead {
        self.op(&[opcode]).op(&[0; 4]);
        Ahead(self.code.len())
    }

    /// Sets the target of a branch: what follows.
    pub fn here(&mut self, branch: Ahead) -> &mut Self {
        let distance = (self.code.len() - branch.0) as u32;
        self.code[branch.0 - 4..branch.0].copy_from_slice(&distance.to_le_bytes());
        self
    }

    fn op(&mut self, bytes: &[u8]) -> &mut Self {
        self.code.extend_from_slice(bytes);
        self
    }
}
