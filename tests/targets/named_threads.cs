// Threads with all kinds of names: long, not Latin, given late, none at all.
//
// named_threads
// `late` gives the unnamed thread its name, `late-name`; `names` answers the names as they are now; `count` answers the operations so far.
using System;
using System.Runtime.CompilerServices;
using System.Threading;

static class NamedThreads
{
    static long operations;

    static void Main()
    {
        var threads = new[]
        {
            New("plain"),
            New("a name that is longer than fifteen characters"),
            New("名前のあるスレッド"),
            New(null),
        };
        foreach (Thread thread in threads)
            thread.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
        {
            if (line == "late")
                threads[3].Name = "late-name";
            Console.WriteLine(line == "count" ? Interlocked.Read(ref operations).ToString() : string.Join("|", Array.ConvertAll(threads, thread => thread.Name ?? "")));
        }
    }

    static Thread New(string name)
    {
        var thread = new Thread(Work) { IsBackground = true };
        if (name != null)
            thread.Name = name;
        return thread;
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
