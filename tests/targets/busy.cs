// Burns processor time on N threads and counts what it gets done: the measure of what a profiler takes away.
//
// busy [THREADS]
// `count` answers the operations done so far by all threads; `threads` answers how many there are.
using System;
using System.Runtime.CompilerServices;
using System.Threading;

static class Busy
{
    /// One counter a thread, far enough apart that the threads do not disturb one another.
    const int Stride = 16;
    static long[] counters;

    static void Main(string[] arguments)
    {
        int threads = arguments.Length > 0 ? int.Parse(arguments[0]) : 2;
        counters = new long[(threads + 1) * Stride];
        for (int i = 1; i <= threads; i++)
        {
            int slot = i * Stride;
            new Thread(() => Work(slot)) { IsBackground = true, Name = "busy " + i }.Start();
        }
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "count" ? Sum().ToString() : line == "threads" ? threads.ToString() : "unknown");
    }

    static void Work(int slot)
    {
        uint state = (uint)slot;
        while (true)
        {
            state = Outer(state);
            counters[slot]++;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static uint Outer(uint state)
    {
        for (int i = 0; i < 20; i++)
            state = Inner(state);
        return state;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static uint Inner(uint state)
    {
        for (int i = 0; i < 500; i++)
            state = state * 1664525 + 1013904223;
        return state;
    }

    static long Sum()
    {
        long sum = 0;
        for (int slot = Stride; slot < counters.Length; slot += Stride)
            sum += Volatile.Read(ref counters[slot]);
        return sum;
    }
}
