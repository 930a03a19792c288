// Allocates as fast as it can, so that collections never stop: suspensions and moves while it is sampled.
//
// gc [THREADS]
// `count` answers the objects allocated; `collections` answers the collections of each generation; `collect` makes a full one.
using System;
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

    static void Main(string[] arguments)
    {
        int threads = arguments.Length > 0 ? int.Parse(arguments[0]) : 2;
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
            case "collect": GC.Collect(); return "collected";
            default: return "unknown";
        }
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
