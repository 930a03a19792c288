// Builds one of each kind of object that a heap can hold, in known numbers, and then stands still.
//
// kinds
// Each kind has types of its own, so that it can be counted. `still` answers `still`; `poh` answers whether there is a pinned heap;
// `held` answers what the objects say of themselves: that none has been harmed.
using System;
using System.Collections.Generic;
using System.IO;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Loader;
using System.Threading;

namespace Kinds
{
    class Leaf { public long Value = 1; }

    // Cycles.
    class Ring { public Ring Next; }
    class Self { public Self Me; }
    class Left { public Right Other; }
    class Right { public Left Other; }

    // Inheritance: references in both halves, and numbers between them.
    class Base { public object First; public byte Small; }
    class Derived : Base { public int Number; public object Second; }

    // Values with references inside.
    struct Two { public Leaf A; public int Between; public Leaf B; }
    struct Nested { public long Before; public Two Two; public Leaf C; }
    class HasNested { public Nested Value; public Nested? Maybe; }
    [StructLayout(LayoutKind.Explicit)]
    struct Explicit { [FieldOffset(8)] public Leaf Leaf; [FieldOffset(0)] public int Number; [FieldOffset(0)] public byte Part; }

    // Generics.
    class Box<T> { public T Value; }
    class Outer<T> { public class Inner<U> { public T First; public U Second; } }
    enum Colour : short { Red = 1 }
    struct Plain { public int A, B, C; }
    struct Odd { public byte A, B, C; }

    // What holds what in a way of its own.
    class Handled { }
    class PinnedOne { public long A; }
    class Weakly { }
    class Dead { }
    class Key { }
    class Value { public Leaf Leaf = new Leaf(); }
    class OnStack { }
    class OnThread { }
    class Finalized { ~Finalized() { } }
    class InStatic { }
    class InGenericStatic { }
    class Statics<T> { public static object Held; }
    class Closed { public int Called; public void Call() => Called++; }

    // Many references, large and small.
    class Item { }
    class Member { }
    struct Huge { public long A, B; }
    struct Pinnable { public long A; }
    class Owner { public object[] Things; public string[] Texts; }

    static class Program
    {
        [ThreadStatic] static OnThread onThread;
        static InStatic inStatic = new InStatic();
        static readonly List<object> kept = new List<object>();
        static readonly ConditionalWeakTable<Key, Value> attached = new ConditionalWeakTable<Key, Value>();
        static readonly ManualResetEventSlim end = new ManualResetEventSlim();
        static readonly ManualResetEventSlim begun = new ManualResetEventSlim();
        static Owner owner;
        static string literal = "a text that stands in the program itself";
        static GCHandle handled, weak, dead, pinned;

        static void Main()
        {
            Cycles();
            Values();
            Generics();
            Arrays();
            Handles();
            Dependent();
            Collectible();
            Delegates();
            bool hasPinnedHeap = PinnedHeap();
            inStatic.ToString();
            Statics<int>.Held = new InGenericStatic();
            Statics<string>.Held = new InGenericStatic();
            new Thread(Stack) { IsBackground = true, Name = "holder" }.Start();
            begun.Wait();
            // What is made at the first question is made before the first snapshot.
            Answer("held", hasPinnedHeap);
            GC.Collect();
            GC.WaitForPendingFinalizers();
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(Answer(line, hasPinnedHeap));
            end.Set();
        }

        static string Answer(string line, bool hasPinnedHeap)
        {
            switch (line)
            {
                case "still": return "still";
                case "poh": return hasPinnedHeap ? "yes" : "no";
                case "held": return Held();
                default: return "unknown";
            }
        }

        static string Held()
        {
            var ring = (Ring)kept[0];
            int length = 1;
            for (Ring at = ring.Next; at != ring; at = at.Next)
                length++;
            bool whole = handled.Target is Handled && weak.Target is Weakly && dead.Target == null && owner.Things.Length == 20
                && ((byte[])owner.Things[3]).Length == 3 && literal.Length == 40 && attached.TryGetValue((Key)kept[1], out _);
            return length + " " + (whole ? "whole" : "harmed");
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Cycles()
        {
            var first = new Ring();
            Ring last = first;
            for (int i = 1; i < 7; i++)
                last = new Ring { Next = last };
            first.Next = last;
            kept.Add(first);
            kept.Add(new Key());
            var self = new Self();
            self.Me = self;
            kept.Add(self);
            var left = new Left { Other = new Right() };
            left.Other.Other = left;
            kept.Add(left);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Values()
        {
            kept.Add(new Derived { First = new Box<sbyte>(), Small = 1, Number = 2, Second = new Box<byte>() });
            var two = new Two { A = new Leaf(), B = new Leaf() };
            kept.Add(new HasNested { Value = new Nested { Two = two, C = two.A }, Maybe = new Nested { Two = two, C = new Leaf() } });
            kept.Add(new Explicit { Leaf = new Leaf() });
            kept.Add(Colour.Red);
            kept.Add(new Plain());
            kept.Add(two);
            // Each refers to two leaves, of which the last has none.
            var some = new Two[5];
            for (int i = 0; i < 4; i++)
                some[i] = new Two { A = new Leaf(), B = new Leaf() };
            kept.Add(some);
            kept.Add(new Nested[3]);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Generics()
        {
            kept.Add(new Box<int>());
            kept.Add(new Box<Leaf> { Value = new Leaf() });
            kept.Add(new Box<string> { Value = new string('b', 10) });
            kept.Add(new Box<Box<Leaf>> { Value = new Box<Leaf>() });
            kept.Add(new Box<Two> { Value = new Two { A = new Leaf() } });
            kept.Add(new Box<Colour>());
            kept.Add(new Box<int[]> { Value = new int[2] });
            kept.Add(new Box<Plain?>());
            kept.Add(new Outer<int>.Inner<string> { Second = "inner" });
            kept.Add(new Outer<Leaf>.Inner<Plain> { First = new Leaf() });
            kept.Add(new Dictionary<Colour, Plain>());
        }

        // Twenty, of which the test knows type and size.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Arrays()
        {
            Array offset = Array.CreateInstance(typeof(Item), new[] { 2 }, new[] { 1 });
            offset.SetValue(new Item(), 1);
            var things = new object[]
            {
                new bool[3], new char[3], new sbyte[3], new byte[3], new short[3], new ushort[3], new int[3], new uint[3], new long[3],
                new ulong[3], new float[3], new double[3], new IntPtr[3], new UIntPtr[3], new Odd[5], new Colour[3], new Plain[0],
                new Item[2, 3], new Item[2][] { new Item[1], null }, offset,
            };
            ((Item[,])things[17])[1, 2] = new Item();
            owner = new Owner { Things = things, Texts = new[] { new string('a', 1), new string('a', 2), new string('a', 1001), null } };
            kept.Add(new Huge[200_000]);
            // In the heap for large objects, and full of references.
            var members = new Member[50_000];
            for (int i = 0; i < 1000; i++)
                members[i * 50] = new Member();
            kept.Add(members);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Handles()
        {
            handled = GCHandle.Alloc(new Handled());
            pinned = GCHandle.Alloc(new PinnedOne(), GCHandleType.Normal);
            GCHandle.Alloc(new Plain[7], GCHandleType.Pinned);
            var alive = new Weakly();
            kept.Add(alive);
            weak = GCHandle.Alloc(alive, GCHandleType.Weak);
            dead = GCHandle.Alloc(new Dead(), GCHandleType.Weak);
            kept.Add(new Finalized());
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Dependent()
        {
            attached.Add((Key)kept[1], new Value());
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Collectible()
        {
            byte[] plugin = File.ReadAllBytes(Path.Combine(AppContext.BaseDirectory, "plugin.dll"));
            Assembly assembly = new AssemblyLoadContext("kinds", isCollectible: true).LoadFromStream(new MemoryStream(plugin));
            Type type = assembly.GetType("Loaded.Thing");
            for (int i = 0; i < 3; i++)
                kept.Add(Activator.CreateInstance(type));
            kept.Add(Array.CreateInstance(type, 4));
            kept.Add(Activator.CreateInstance(assembly.GetType("Loaded.Alone")));
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Delegates()
        {
            var closed = new Closed();
            kept.Add(new Action(closed.Call));
            kept.Add((Action)closed.Call + new Closed().Call);
        }

        /// `GC.AllocateArray` came with .NET 5.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static bool PinnedHeap()
        {
            MethodInfo allocate = typeof(GC).GetMethod("AllocateArray");
            if (allocate == null)
                return false;
            kept.Add(allocate.MakeGenericMethod(typeof(Pinnable)).Invoke(null, new object[] { 11, true }));
            return true;
        }

        static void Stack()
        {
            onThread = new OnThread();
            var local = new OnStack();
            begun.Set();
            end.Wait();
            GC.KeepAlive(local);
            GC.KeepAlive(onThread);
        }
    }
}
