// Burns processor time at the bottom of a deep recursion: stacks that reach the limit of what is captured.
//
// deep [DEPTH [THREADS]]
// `depth` answers how deep it is; `count` answers the operations so far.
using System;
using System.Runtime.CompilerServices;
using System.Threading;

static class Deep
{
    static long operations;

    static void Main(string[] arguments)
    {
        int depth = arguments.Length > 0 ? int.Parse(arguments[0]) : 1000;
        int threads = arguments.Length > 1 ? int.Parse(arguments[1]) : 1;
        var reached = new CountdownEvent(threads);
        for (int i = 0; i < threads; i++)
            new Thread(() => Descend(depth, reached), 512 * 1024 * 1024) { IsBackground = true, Name = "deep" }.Start();
        reached.Wait();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "count" ? Interlocked.Read(ref operations).ToString() : line == "depth" ? depth.ToString() : "unknown");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Descend(int left, CountdownEvent reached)
    {
        if (left > 0)
            return Descend(left - 1, reached) + 1;
        reached.Signal();
        while (true)
            Bottom();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Bottom()
    {
        uint state = 1;
        for (int i = 0; i < 10000; i++)
            state = state * 1664525 + 1013904223;
        if (state != 0)
            Interlocked.Increment(ref operations);
    }
}
