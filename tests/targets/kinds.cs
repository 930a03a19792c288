// Builds objects of every kind that a heap can hold, in known numbers, and then stands still.
//
// kinds [ROUNDS]
// Each kind has types of its own, so that it can be counted: of each there are as many as rounds, or a known multiple.
// `rounds` answers how many; `pinned heap` answers `yes` where the runtime has one; `held` answers `whole` as long as no object was harmed;
// `settle` has everything finalized that is to be; `end` answers `ended` when the thread that holds objects by its stack has let go of them.
using System;
using System.Collections.Generic;
using System.IO;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Loader;
using System.Threading;

#pragma warning disable 649 // Numbers that nobody sets make objects larger.

namespace Kinds
{
    class Leaf { public long Value = 1; }

    // Cycles.
    class Ring { public Ring Next; }
    class Self { public Self Me; }
    class Left { public Right Other; }
    class Right { public Left Other; }

    // Inheritance: references in both halves, and numbers between them.
    class Base { public Leaf First = new Leaf(); public byte Small; }
    class Derived : Base { public int Number; public Leaf Second = new Leaf(); }

    // Values with references inside.
    struct Two { public Leaf A; public int Between; public Leaf B; }
    struct Nested { public long Before; public Two Two; public Leaf C; }
    struct Four { public Two A, B, C, D; }
    struct Sixteen { public Four A, B, C, D; }
    class HasNested { public Nested Value; public Nested? Maybe; }
    class HasSixteen { public Sixteen Value; }
    [StructLayout(LayoutKind.Explicit)]
    struct Explicit { [FieldOffset(8)] public Leaf Leaf; [FieldOffset(0)] public int Number; [FieldOffset(0)] public byte Part; }

    // Generics.
    class Box<T> { public T Value; }
    class Outer<T> { public class Inner<U> { public T First; public U Second; } }
    enum Colour : short { Red = 1 }
    struct Plain { public int A, B, C; }
    struct Odd { public byte A, B, C; }

    // What is held in a way of its own.
    class Handled { }
    class Weakly { }
    class Dead { }
    class Key { }
    class Value { public Leaf Leaf = new Leaf(); }
    class OnStack { }
    class OnThread { }
    class Finalized { ~Finalized() { } }
    class InStatic { }
    class InGenericStatic { }
    static class Statics<T> { public static object Held; }
    class Closed { public int Called; public void Call() => Called++; }

    // Arrays.
    class Item { }
    class Member { }
    struct Huge { public long A, B; }
    struct Pinnable { public long A; }
    struct Fixed { public int A; }
    class Owner { public object[] Things; public string[] Texts; }

    static class Program
    {
        [ThreadStatic] static OnThread onThread;
        static readonly InStatic inStatic = new InStatic();
        static readonly List<object> kept = new List<object>();
        static readonly List<Key> keys = new List<Key>();
        static readonly List<Ring> rings = new List<Ring>();
        static readonly List<Owner> owners = new List<Owner>();
        static readonly List<GCHandle> handles = new List<GCHandle>(), dead = new List<GCHandle>();
        static readonly ConditionalWeakTable<Key, Value> attached = new ConditionalWeakTable<Key, Value>();
        static readonly ManualResetEventSlim begun = new ManualResetEventSlim(), letGo = new ManualResetEventSlim();
        static Thread holder;
        static int rounds;

        static void Main(string[] arguments)
        {
            rounds = arguments.Length > 0 ? int.Parse(arguments[0]) : 1;
            bool hasPinnedHeap = false;
            for (int round = 0; round < rounds; round++)
            {
                Cycles();
                Values();
                Generics();
                Arrays();
                Handles();
                Dependent();
                Delegates();
                hasPinnedHeap = PinnedHeap();
            }
            byte[] plugin = File.ReadAllBytes(Path.Combine(AppContext.BaseDirectory, "plugin.dll"));
            Collectible(context => context.LoadFromAssemblyPath(Path.Combine(AppContext.BaseDirectory, "plugin.dll")), "Thing", "Alone");
            Collectible(context => context.LoadFromStream(new MemoryStream(plugin)), "Stray", "Lone");
            Statics<int>.Held = new InGenericStatic();
            Statics<string>.Held = new InGenericStatic();
            holder = new Thread(Hold) { IsBackground = true, Name = "holder" };
            holder.Start();
            begun.Wait();
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(Answer(line, hasPinnedHeap));
            letGo.Set();
            GC.KeepAlive(inStatic);
        }

        static string Answer(string line, bool hasPinnedHeap)
        {
            switch (line)
            {
                case "rounds": return rounds.ToString();
                case "pinned heap": return hasPinnedHeap ? "yes" : "no";
                case "held": return Held() ? "whole" : "harmed";
                case "settle":
                    for (int i = 0; i < 4; i++)
                    {
                        GC.Collect();
                        GC.WaitForPendingFinalizers();
                    }
                    return "settled";
                case "end":
                    letGo.Set();
                    holder.Join();
                    return "ended";
                default: return "unknown";
            }
        }

        static bool Held()
        {
            foreach (Ring ring in rings)
            {
                int length = 1;
                for (Ring at = ring.Next; at != ring; at = at.Next)
                    length++;
                if (length != 7)
                    return false;
            }
            return keys.TrueForAll(key => attached.TryGetValue(key, out Value value) && value.Leaf.Value == 1)
                && handles.TrueForAll(handle => handle.Target != null)
                && owners.TrueForAll(owner => ((byte[])owner.Things[3]).Length == 3 && owner.Texts[2].Length == 1001);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Cycles()
        {
            var first = new Ring();
            Ring last = first;
            for (int i = 1; i < 7; i++)
                last = new Ring { Next = last };
            first.Next = last;
            rings.Add(first);
            var self = new Self();
            self.Me = self;
            kept.Add(self);
            var left = new Left { Other = new Right() };
            left.Other.Other = left;
            kept.Add(left);
        }

        static Two Both() => new Two { A = new Leaf(), B = new Leaf() };

        static Sixteen AllSixteen()
        {
            var four = new Four { A = Both(), D = Both() };
            return new Sixteen { A = four, B = four, D = new Four { C = Both(), D = Both() } };
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Values()
        {
            kept.Add(new Derived());
            Two two = Both();
            kept.Add(new HasNested { Value = new Nested { Two = two, C = two.A }, Maybe = new Nested { Two = two, C = new Leaf() } });
            kept.Add(new HasSixteen { Value = AllSixteen() });
            kept.Add(new Explicit { Leaf = new Leaf() });
            kept.Add(Colour.Red);
            kept.Add(new Plain());
            kept.Add(two);
            // Each refers to two leaves, of which the last has none.
            var some = new Two[5];
            for (int i = 0; i < 4; i++)
                some[i] = Both();
            kept.Add(some);
            kept.Add(new[] { new Nested { C = new Leaf() }, new Nested(), new Nested { Two = Both() } });
            kept.Add(new[] { AllSixteen(), new Sixteen() });
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Generics()
        {
            kept.Add(new Box<int>());
            kept.Add(new Box<Leaf> { Value = new Leaf() });
            kept.Add(new Box<string> { Value = new string('b', 10) });
            kept.Add(new Box<Box<Leaf>> { Value = new Box<Leaf>() });
            kept.Add(new Box<Two> { Value = new Two { B = new Leaf() } });
            kept.Add(new Box<Colour>());
            kept.Add(new Box<int[]> { Value = new int[2] });
            kept.Add(new Box<Plain?>());
            kept.Add(new Outer<int>.Inner<string> { Second = "inner" });
            kept.Add(new Outer<Leaf>.Inner<Plain> { First = new Leaf() });
        }

        // Twenty in each owner, of which the test knows type and size.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Arrays()
        {
            Array offset = Array.CreateInstance(typeof(Item), new[] { 2 }, new[] { 1 });
            offset.SetValue(new Item(), 1);
            var plane = new Item[2, 3];
            plane[1, 2] = new Item();
            var things = new object[]
            {
                new bool[3], new char[3], new sbyte[3], new byte[3], new short[3], new ushort[3], new int[3], new uint[3], new long[3],
                new ulong[3], new float[3], new double[3], new IntPtr[3], new UIntPtr[3], new Odd[5], new Colour[3], new Plain[0],
                plane, new Item[2][] { new Item[1] { new Item() }, null }, offset,
            };
            var texts = new[] { new string('a', 1), new string('a', 2), new string('a', 1001), null };
            owners.Add(new Owner { Things = things, Texts = texts });
            // Both in the heap for large objects, the second full of references.
            kept.Add(new Huge[20_000]);
            var members = new Member[20_000];
            for (int i = 0; i < 1000; i++)
                members[i * 20] = new Member();
            kept.Add(members);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Handles()
        {
            handles.Add(GCHandle.Alloc(new Handled()));
            handles.Add(GCHandle.Alloc(new Fixed[7], GCHandleType.Pinned));
            var alive = new Weakly();
            kept.Add(alive);
            handles.Add(GCHandle.Alloc(alive, GCHandleType.Weak));
            dead.Add(GCHandle.Alloc(new Dead(), GCHandleType.Weak));
            kept.Add(new Finalized());
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Dependent()
        {
            var key = new Key();
            keys.Add(key);
            attached.Add(key, new Value());
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Collectible(Func<AssemblyLoadContext, Assembly> load, string with, string without)
        {
            Assembly assembly = load(new AssemblyLoadContext("kinds", isCollectible: true));
            Type type = assembly.GetType("Loaded." + with);
            for (int round = 0; round < rounds; round++)
            {
                kept.Add(Activator.CreateInstance(type));
                kept.Add(Array.CreateInstance(type, 4));
                kept.Add(Activator.CreateInstance(assembly.GetType("Loaded." + without)));
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Delegates()
        {
            kept.Add(new Action(new Closed().Call));
            kept.Add((Action)new Closed().Call + new Closed().Call);
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

        static void Hold()
        {
            onThread = new OnThread();
            var local = new OnStack();
            begun.Set();
            letGo.Wait();
            GC.KeepAlive(local);
            GC.KeepAlive(onThread);
        }
    }
}
