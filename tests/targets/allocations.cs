// Allocates known objects, and says how many and how many bytes they are, to be compared with what `remora trace` counts.
//
// allocations [THREADS]
// One line for each method and type, `objects METHOD TYPE COUNT BYTES`: the bytes are those that the runtime's own counter of the thread
// grew by, or the sum over threads. (The counter of .NET Core 3.1 leaves out large objects, so those are added up.) Other objects, as of the framework, are not in the lines.
using System;
using System.Collections.Generic;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Threading;

#pragma warning disable 649 // Only the sizes of the types matter.
class Order { public long Number; public Order Next; }
struct Point { public double X, Y; }
class Cell<T> { public T Value; public Cell(T value) { Value = value; } }
class Outer { public class Inner { public int A; } }
class Failed : Exception { public Failed() : base("fixed") { } }

static class Made
{
    const int Count = 10000;

    // Of the calling thread; a delegate, since calling it by reflection would allocate.
    static readonly Func<long> Bytes = (Func<long>)Delegate.CreateDelegate(
        typeof(Func<long>), typeof(GC).GetMethod("GetAllocatedBytesForCurrentThread", BindingFlags.Public | BindingFlags.Static));

    static object kept;
    static readonly string Long = new string('x', 100);

    static void Keep(object made) { Volatile.Write(ref kept, made); }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Orders(int count) { long from = Bytes(); for (int i = 0; i < count; i++) Keep(new Order { Number = i }); return Bytes() - from; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Arrays() { long from = Bytes(); for (int i = 0; i < Count; i++) Keep(new int[i % 100]); return Bytes() - from; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long LargeArrays()
    {
        long bytes = 0;
        for (int i = 0; i < 20; i++)
        {
            Keep(new byte[100000 + i]);
            bytes += (24 + 100000 + i + 7) / 8 * 8;
        }
        return bytes;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Grids() { long from = Bytes(); for (int i = 0; i < Count; i++) Keep(new Point[3, 4]); return Bytes() - from; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Boxes() { long from = Bytes(); for (int i = 0; i < Count; i++) Keep(i); return Bytes() - from; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Generic() { long from = Bytes(); for (int i = 0; i < Count; i++) Keep(new Cell<Dictionary<string, int[]>>(null)); return Bytes() - from; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Nested() { long from = Bytes(); for (int i = 0; i < Count; i++) Keep(new Outer.Inner()); return Bytes() - from; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Texts() { long from = Bytes(); for (int i = 0; i < Count; i++) Keep(Long.Substring(i % 20, i % 50 + 2)); return Bytes() - from; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Throw(int depth) { if (depth == 0) throw new Failed(); Throw(depth - 1); }

    // After an exception: the objects are its own, not of the methods that were unwound.
    [MethodImpl(MethodImplOptions.NoInlining)]
    static long AfterExceptions()
    {
        long bytes = 0;
        for (int i = 0; i < 100; i++)
        {
            try { Throw(i % 5); } catch (Failed) { }
            long from = Bytes();
            Keep(new Order());
            bytes += Bytes() - from;
        }
        return bytes;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Recursive(int depth)
    {
        long from = Bytes();
        Keep(new Outer.Inner());
        long own = Bytes() - from;
        return depth == 0 ? own : own + Recursive(depth - 1);
    }

    // Allocated by all threads at once, before anybody else has: each of them may be the one that the runtime tells first.
    class Raced { public long Number; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Race(Barrier start) { start.SignalAndWait(); for (int i = 0; i < Count; i++) Keep(new Raced()); }

    static void RaceAll(int threads)
    {
        var start = new Barrier(threads);
        var running = new List<Thread>();
        for (int i = 0; i < threads; i++) running.Add(new Thread(() => Race(start)));
        running.ForEach(thread => thread.Start());
        running.ForEach(thread => thread.Join());
        // A header, the type, and the field.
        Say("Made.Race", "Made.Raced", (long)threads * Count, 24L * threads * Count);
    }

    static void Say(string method, string type, long count, long bytes) =>
        Console.WriteLine("objects " + method + " " + type + " " + count + " " + bytes);

    // The first call allocates more, as what the runtime needs to resolve. The second one is counted, and both allocate the same objects.
    static long Twice(Func<long> method) { method(); return 2 * method(); }

    static void Main(string[] arguments)
    {
        int threads = arguments.Length > 0 ? int.Parse(arguments[0]) : 8;
        RaceAll(threads);
        Orders(Count);
        long bytes = 0;
        var running = new List<Thread>();
        for (int i = 0; i < threads; i++)
        {
            var thread = new Thread(() => Interlocked.Add(ref bytes, Orders(Count)));
            thread.Start();
            running.Add(thread);
        }
        running.ForEach(thread => thread.Join());
        Say("Made.Orders", "Order", (long)(threads + 1) * Count, bytes / threads * (threads + 1));
        Say("Made.Arrays", "System.Int32[]", 2 * Count, Twice(Arrays));
        Say("Made.LargeArrays", "System.Byte[]", 40, Twice(LargeArrays));
        Say("Made.Grids", "Point[,]", 2 * Count, Twice(Grids));
        Say("Made.Boxes", "System.Int32", 2 * Count, Twice(Boxes));
        Say("Made.Generic", "Cell<System.Collections.Generic.Dictionary<System.String,System.Int32[]>>", 2 * Count, Twice(Generic));
        Say("Made.Nested", "Outer.Inner", 2 * Count, Twice(Nested));
        Say("Made.Texts", "System.String", 2 * Count, Twice(Texts));
        Say("Made.AfterExceptions", "Order", 200, Twice(AfterExceptions));
        Say("Made.Recursive", "Outer.Inner", 202, Twice(() => Recursive(100)));
    }
}
