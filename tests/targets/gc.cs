// Allocates as fast as it can, so that collections never stop: suspensions and moves while it is sampled.
//
// gc [THREADS [KEPT]]
// KEPT objects are kept from the beginning.
// `count` answers the objects allocated; `collections` answers the collections of each generation; `collect` makes a full one.
// `paused` answers the nanoseconds for which collections have paused it, as the runtime counts them (.NET 7 and later, else 0).
// `full` asks for a full one that need not stop the program, and answers whether it was `background` or `blocking`.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics.Tracing;
using System.Runtime.CompilerServices;
using System.Threading;

static class Gc
{
    static long allocated;

    sealed class Node
    {
        public Node Next;
        public byte[] Payload;
    }

    /// What the runtime itself says about each full collection: its number, and whether it runs beside the program.
    sealed class FullCollections : EventListener
    {
        const int CollectionStarts = 1;
        const EventKeywords Collections = (EventKeywords)1;
        const uint Background = 1;

        readonly BlockingCollection<(uint Number, bool InBackground)> told = new BlockingCollection<(uint, bool)>();

        protected override void OnEventSourceCreated(EventSource source)
        {
            if (source.Name == "Microsoft-Windows-DotNETRuntime")
                EnableEvents(source, EventLevel.Informational, Collections);
        }

        protected override void OnEventWritten(EventWrittenEventArgs told)
        {
            if (told.EventId == CollectionStarts && (uint)told.Payload[1] == 2)
                this.told.Add(((uint)told.Payload[0], (uint)told.Payload[3] == Background));
        }

        // What is collected beside the program must be worth it.
        readonly List<byte[]> kept = new List<byte[]>();

        public FullCollections()
        {
            for (int i = 0; i < 64 * 1024; i++)
                kept.Add(new byte[1024]);
        }

        /// Asks until one has begun since: while one is under way, no other begins.
        public bool NextIsInBackground()
        {
            uint before = (uint)GC.CollectionCount(0);
            while (true)
            {
                GC.Collect(2, GCCollectionMode.Forced, blocking: false);
                while (told.TryTake(out (uint Number, bool InBackground) full, 100))
                    if (full.Number > before)
                        return full.InBackground;
            }
        }
    }

    static FullCollections full;
    static Node kept;

    static void Main(string[] arguments)
    {
        int threads = arguments.Length > 0 ? int.Parse(arguments[0]) : 2;
        for (int i = arguments.Length > 1 ? int.Parse(arguments[1]) : 0; i > 0; i--)
            kept = new Node { Next = kept };
        for (int i = 0; i < threads; i++)
            new Thread(Allocate) { IsBackground = true, Name = "allocator " + i }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line));
    }

    static string Answer(string question)
    {
        switch (question)
        {
            case "count": return Interlocked.Read(ref allocated).ToString();
            case "collections": return GC.CollectionCount(0) + " " + GC.CollectionCount(1) + " " + GC.CollectionCount(2);
            case "paused": return Paused().ToString();
            case "collect": GC.Collect(); return "collected";
            case "full": return (full ??= new FullCollections()).NextIsInBackground() ? "background" : "blocking";
            default: return "unknown";
        }
    }

    static long Paused()
    {
        object pause = typeof(GC).GetMethod("GetTotalPauseDuration")?.Invoke(null, null);
        return pause == null ? 0 : ((TimeSpan)pause).Ticks * 100;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Allocate()
    {
        var kept = new Node[1024];
        uint state = 1;
        while (true)
        {
            for (int i = 0; i < 1000; i++)
            {
                state = state * 1664525 + 1013904223;
                uint slot = state >> 22;
                kept[slot] = new Node { Next = kept[(slot + 1) % 1024]?.Next == null ? kept[(slot + 1) % 1024] : null, Payload = new byte[state >> 24] };
            }
            Interlocked.Add(ref allocated, 1000);
        }
    }
}
