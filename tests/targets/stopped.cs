// Keeps linked objects, and notices for how long it stood still: a thread looks at the clock again and again. It does nothing else, so
// that it has a processor for itself; or, with `waits`, it sleeps for a millisecond between two looks, as a server that has little to do.
//
// stopped [NODES] [waits]
// `gap` answers the longest time between two looks since the last question, in microseconds; `collect` forces a collection of everything
// that nothing else runs beside, and answers the same of it; `nodes` answers how many objects there are.
using System;
using System.Diagnostics;
using System.Threading;

static class Stopped
{
    class Node
    {
        public Node Next;
        public Node Other;
    }

    /// Nodes among which the second reference of a new one is drawn.
    const int Recent = 4096;

    static Node first;
    static long longest;
    static long looks;
    static bool waits;

    static void Main(string[] arguments)
    {
        int nodes = arguments.Length > 0 ? int.Parse(arguments[0]) : 1000;
        waits = arguments.Length > 1 && arguments[1] == "waits";
        Grow(nodes);
        GC.Collect();
        new Thread(Watch) { IsBackground = true, Name = "clock" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line, nodes));
        GC.KeepAlive(first);
    }

    static long Answer(string line, int nodes)
    {
        if (line == "nodes")
            return nodes;
        if (line == "collect")
        {
            Gap();
            GC.Collect(2, GCCollectionMode.Forced, true);
        }
        return Gap();
    }

    /// The longest gap so far, one that has just ended included.
    static long Gap()
    {
        long seen = Volatile.Read(ref looks);
        SpinWait.SpinUntil(() => Volatile.Read(ref looks) > seen + 1);
        return Interlocked.Exchange(ref longest, 0) * 1000000 / Stopwatch.Frequency;
    }

    static void Watch()
    {
        long last = Stopwatch.GetTimestamp();
        while (true)
        {
            if (waits)
                Thread.Sleep(1);
            long now = Stopwatch.GetTimestamp();
            if (now - last > Volatile.Read(ref longest))
                Volatile.Write(ref longest, now - last);
            last = now;
            Volatile.Write(ref looks, looks + 1);
        }
    }

    static void Grow(int nodes)
    {
        var recent = new Node[Recent];
        uint chance = 1;
        for (int i = 0; i < nodes; i++)
        {
            chance = chance * 1664525 + 1013904223;
            first = new Node { Next = first, Other = recent[chance >> 20] };
            recent[i % Recent] = first;
        }
    }
}
