// A finalizer that does not return until it is told to: what waits for the finalizer thread waits for ever.
//
// blocked_finalizer
// Ready when the finalizer is stuck. `release` lets it go on, and answers when it has ended; `count` answers the operations of a busy thread.
using System;
using System.Runtime.CompilerServices;
using System.Threading;

static class BlockedFinalizer
{
    static readonly ManualResetEventSlim entered = new ManualResetEventSlim();
    static readonly ManualResetEventSlim released = new ManualResetEventSlim();
    static readonly ManualResetEventSlim ended = new ManualResetEventSlim();
    static long operations;

    sealed class Stuck
    {
        ~Stuck()
        {
            entered.Set();
            released.Wait();
            ended.Set();
        }
    }

    static void Main()
    {
        new Thread(Work) { IsBackground = true, Name = "busy" }.Start();
        Drop();
        while (!entered.Wait(10))
            GC.Collect();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
        {
            if (line == "release")
            {
                released.Set();
                ended.Wait();
            }
            Console.WriteLine(line == "count" ? Interlocked.Read(ref operations).ToString() : line == "release" ? "released" : "unknown");
        }
        released.Set();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Drop()
    {
        new Stuck();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Work()
    {
        while (true)
        {
            uint state = 1;
            for (int i = 0; i < 10000; i++)
                state = state * 1664525 + 1013904223;
            if (state != 0)
                Interlocked.Increment(ref operations);
        }
    }
}
