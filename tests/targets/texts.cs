// A program whose strings are known.
using System;
using System.Collections.Generic;

namespace Known
{
    static class Texts
    {
        const int Copies = 1000;
        static readonly List<string> Held = new List<string>();

        static void Main()
        {
            for (int copy = 0; copy < Copies; copy++)
                Held.Add(new string("the same text again and again".ToCharArray()));
            Held.Add(new string('x', 10000));
            // Two halves of one character, and a half that is alone.
            Held.Add(new string(new[] { 'a', '\ud83d', '\ude00', '\ud83d' }));
            // Nothing of it is like anything else, so that it is stored as it is however it is packed.
            Held.Add("\ua3f7\u91c2\uc0a1\u8b4e\uc3d9\u97e5\ubd13\u9a6c");
            Held.Add(new string("a \"quoted\"\nline".ToCharArray()));
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(Held.Count);
            GC.KeepAlive(Held);
        }
    }
}
